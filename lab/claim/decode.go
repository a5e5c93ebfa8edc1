package claim

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"mcmw/internal/userinput"
	"mcmw/lab/experiment"
	"mcmw/lab/frame"
	"mcmw/lab/paper"
)

var idForm = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,63}$`)

// maxDepth is the deepest nesting of rules.
const maxDepth = 4

// Parse reads claims. file is its name in errors. Unknown and duplicate keys and values out of range are errors with their lines.
func Parse(file string, text []byte) ([]Claim, error) {
	root, err := userinput.Mapping(text, "claims: [...]")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if root == nil {
		return nil, fmt.Errorf("%s: the file is empty; expected claims, such as those of experiments/claims.yaml", file)
	}
	var content struct {
		// Travel has the one-way delay of packets in the suites of each report.
		Travel map[string]string `yaml:"travel"`
		Claims []Claim           `yaml:"claims"`
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&content); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	travel, err := travelTimes(content.Travel)
	if err != nil {
		return nil, fmt.Errorf("%s: travel: %w", file, err)
	}
	lines := linesOf(root)
	if len(content.Claims) == 0 || len(lines) != len(content.Claims) {
		return nil, fmt.Errorf("%s: no claims; expected the key claims with a list of them", file)
	}
	var problems []error
	seen := map[string]bool{}
	for i, c := range content.Claims {
		content.Claims[i].Travel = travel[c.Report]
		err := c.check()
		if err == nil && seen[c.ID] {
			err = errors.New("the id occurs twice")
		}
		seen[c.ID] = true
		if err != nil {
			problems = append(problems, fmt.Errorf("%s:%d: claim %q: %w", file, lines[i], c.ID, err))
		}
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	return content.Claims, nil
}

// travelTimes returns the delays of packets by report, in seconds.
func travelTimes(of map[string]string) (map[string]float64, error) {
	seconds := map[string]float64{}
	for name, text := range of {
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 {
			return nil, fmt.Errorf("%s: %q: expected a duration such as 0.5ms", name, text)
		}
		if !slices.Contains(paper.Names, name) {
			return nil, fmt.Errorf("%s: expected one of %s", name, strings.Join(paper.Names, ", "))
		}
		seconds[name] = d.Seconds()
	}
	return seconds, nil
}

// linesOf returns the lines of the elements of the list of claims.
func linesOf(root *yaml.Node) (lines []int) {
	for i := 0; i+1 < len(root.Content); i += 2 {
		if root.Content[i].Value == "claims" {
			for _, element := range userinput.Resolve(root.Content[i+1]).Content {
				lines = append(lines, element.Line)
			}
		}
	}
	return lines
}

func (c Claim) check() error {
	switch {
	case !idForm.MatchString(c.ID):
		return fmt.Errorf("id: expected lower-case letters, digits and -, at most 64")
	case !slices.Contains(paper.Names, c.Report):
		return fmt.Errorf("report %q: expected one of %s", c.Report, strings.Join(paper.Names, ", "))
	case c.Section == "":
		return errors.New("no section; expected the section of the report, such as \"3.3\"")
	case c.Text == "":
		return errors.New("no text; expected the claim in words")
	case c.Construction != "" && c.Cause != nil:
		return errors.New("construction and cause: expected only one of them, because a claim that follows from the testbed has no other cause")
	}
	if c.Cause != nil {
		if err := c.Cause.check(0); err != nil {
			return fmt.Errorf("cause: %w", err)
		}
	}
	return c.Rule.check(0)
}

const kindNames = "all, converges, saturates, compare, share, order, model, law, limited"

func (r Rule) check(depth int) error {
	kinds := r.kinds()
	if len(kinds) != 1 {
		return fmt.Errorf("the rule has %d kinds; expected exactly one of %s", len(kinds), kindNames)
	}
	if depth > maxDepth {
		return fmt.Errorf("rules are nested more than %d deep", maxDepth)
	}
	if r.All == nil {
		return kinds[0].check()
	}
	if len(r.All) < 2 {
		return fmt.Errorf("all: %d rules; expected at least two", len(r.All))
	}
	for i, part := range r.All {
		if err := part.check(depth + 1); err != nil {
			return fmt.Errorf("all, rule %d: %w", i+1, err)
		}
	}
	return nil
}

// check returns nil: Rule.check checks the parts.
func (rules every) check() error { return nil }

// recordForm matches the names of experiments.
var recordForm = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)

func checkRecord(name string) error {
	if !recordForm.MatchString(name) {
		return fmt.Errorf("record %q: expected the name of an experiment, such as sweep", name)
	}
	return nil
}

func checkFactor(key, name string) error {
	if experiment.Find(name) == nil {
		return fmt.Errorf("%s: %q is not a setting of experiments (docs/experiments.md lists them)", key, name)
	}
	return nil
}

func (s Selection) check() error {
	if err := checkRecord(s.Record); err != nil {
		return err
	}
	for name := range s.Where {
		if err := checkFactor("where", name); err != nil {
			return err
		}
	}
	return nil
}

// checkMetric requires a source and a metric such as client.throughput.
func checkMetric(text string) error {
	if _, err := frame.ParseMetric(text, ""); err != nil {
		return fmt.Errorf("metric %q: expected a source and a metric such as client.throughput", text)
	}
	return nil
}

// Range is the range from Low to High; an end that is nil is open.
type Range struct {
	Low  *float64 `yaml:"low"`
	High *float64 `yaml:"high"`
}

func (r Range) check() error {
	switch {
	case r.Low == nil && r.High == nil:
		return errors.New("neither low nor high; expected one of them or both")
	case r.Low != nil && r.High != nil && !(*r.Low < *r.High):
		return fmt.Errorf("low %g is not below high %g", *r.Low, *r.High)
	}
	for _, end := range []*float64{r.Low, r.High} {
		if end != nil && (*end-*end != 0) { // infinite, or not a number
			return fmt.Errorf("%g: expected a number", *end)
		}
	}
	return nil
}

func (r Range) holds(low, high float64) bool {
	return (r.Low == nil || low >= *r.Low) && (r.High == nil || high <= *r.High)
}

// words describes the range, with values formatted by show.
func (r Range) words(show func(float64) string) string {
	switch {
	case r.High == nil:
		return "at least " + show(*r.Low)
	case r.Low == nil:
		return "at most " + show(*r.High)
	default:
		return show(*r.Low) + " to " + show(*r.High)
	}
}

// checkPart requires a number between 0 and 1.
func checkPart(key string, v float64) error {
	if !(v > 0 && v < 1) {
		return fmt.Errorf("%s %g: expected more than 0 and less than 1", key, v)
	}
	return nil
}
