package claim

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"mcmw/lab/check"
	"mcmw/lab/frame"
	"mcmw/lab/record"
)

// Law requires that R = N/X - Z (Jain, section 33.4) holds in every run of a closed loop, with the response time of the clients.
type Law struct {
	// Of has the names of experiments; empty: all experiments of the claim's report that have records.
	Of []string `yaml:"of"`
	// Throughput is the source of X: client (the default) or middleware.
	Throughput string `yaml:"throughput"`
	// Within is the largest difference, relative to the response time.
	Within float64 `yaml:"within"`
}

func (l *Law) records() []string { return l.Of }

func (l *Law) check() error {
	var errs []error
	for _, name := range l.Of {
		errs = append(errs, checkRecord(name))
	}
	if l.source() != record.SourceClient && l.source() != record.SourceMiddleware {
		errs = append(errs, fmt.Errorf("throughput %q: expected client or middleware", l.Throughput))
	}
	return first("law", append(errs, checkPart("within", l.Within))...)
}

func (l *Law) source() string { return cmp.Or(l.Throughput, record.SourceClient) }

func (l *Law) decide(e *view) (Verdict, string) {
	names := l.Of
	if len(names) == 0 {
		for _, name := range slices.Sorted(maps.Keys(e.sets)) {
			if strings.HasPrefix(name, e.claim.Report+"-") {
				names = append(names, name)
			}
		}
	}
	if len(names) == 0 {
		return NotComparable, "there is no record of " + e.claim.Report
	}
	runs, worst, where := 0, 0.0, ""
	for _, name := range names {
		set, why := e.set(name)
		if why != "" {
			return NotComparable, why
		}
		for _, run := range set.runs {
			// A run may violate the check of this law: that is the question here.
			if code := defect(run); run.State != record.Complete || code != "" && code != check.InteractiveLaw {
				continue
			}
			predicted, measured, ok := frame.ByLaw(run, l.source())
			if !ok {
				continue
			}
			error := (measured - predicted) / measured
			runs++
			if math.Abs(error) > math.Abs(worst) || where == "" {
				worst, where = error, fmt.Sprintf("run %d of %s", run.ID, name)
			}
		}
	}
	if runs == 0 {
		return NotComparable, "there is no valid run of a closed loop in " + strings.Join(names, ", ")
	}
	text := fmt.Sprintf("off by at most %+.2f %% (%s) in %d valid runs; expected within %.3g %%", 100*worst, where, runs, 100*l.Within)
	return judge(decided(math.Abs(worst) <= l.Within), text)
}
