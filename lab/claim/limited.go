package claim

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"mcmw/lab/frame"
	"mcmw/lab/report"
)

// Limited requires that the bottleneck of a point, found by package report, is one of some components.
type Limited struct {
	Side `yaml:",inline"`
	// By has prefixes of the components' names, such as "workers" or "processor of".
	By []string `yaml:"by"`
}

func (l *Limited) check() error {
	errs := []error{l.Side.check()}
	if len(l.By) == 0 {
		errs = append(errs, errors.New("by: expected at least one component"))
	}
	return first("limited", errs...)
}

func (l *Limited) decide(e *view) (Verdict, string) {
	p, runs, name, why := l.point(e)
	if why != "" {
		return NotComparable, why
	}
	limit, why := e.limit(l.Record, p)
	if why != "" {
		return NotComparable, why
	}
	text := fmt.Sprintf("%s: %s; the report's cause: %s", name, limit.Words, strings.Join(l.By, " or "))
	if limit.Name == "" {
		return Undecided, text
	}
	return judge(decided(slices.ContainsFunc(l.By, func(by string) bool { return strings.HasPrefix(limit.Name, by) })), text, e.exhausted(l.Record, runs))
}

// limit returns the bottleneck of a point, or why it isn't known.
func (e *view) limit(name string, p frame.Point) (report.Bottleneck, string) {
	s, why := e.set(name)
	if why != "" {
		return report.Bottleneck{}, why
	}
	return report.Limit(s.record, p), ""
}
