package load

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Objective is a requirement on a load, such as a 99th percentile below a millisecond.
type Objective struct {
	Text  string
	name  string
	above bool // the value must be above the bound, else below
	equal bool // or equal to it
	bound float64
}

// objectives are what an Objective can be about: times in seconds, the others as they are.
var objectives = []struct {
	name string
	of   func(*Result) float64
	time bool
}{
	{"mean", func(r *Result) float64 { return r.Total.Latency.Mean.Seconds() }, true},
	{"p50", func(r *Result) float64 { return r.Total.Latency.P50.Seconds() }, true},
	{"p90", func(r *Result) float64 { return r.Total.Latency.P90.Seconds() }, true},
	{"p99", func(r *Result) float64 { return r.Total.Latency.P99.Seconds() }, true},
	{"p99.9", func(r *Result) float64 { return r.Total.Latency.P999.Seconds() }, true},
	{"max", func(r *Result) float64 { return r.Total.Latency.Max.Seconds() }, true},
	{"throughput", func(r *Result) float64 { return r.Total.OpsPerSec }, false},
	{"errors", func(r *Result) float64 { return float64(r.Total.Failures) }, false},
	{"misses", func(r *Result) float64 { return float64(r.Total.Misses) }, false},
}

var objectiveForm = regexp.MustCompile(`^\s*([a-z][a-z0-9.]*)\s*(<=|>=|<|>)\s*(\S+)\s*$`)

// ParseObjective reads NAME, an operator of < <= > >=, and a bound: a duration for times, else a number.
func ParseObjective(text string) (Objective, error) {
	parts := objectiveForm.FindStringSubmatch(text)
	if parts == nil {
		return Objective{}, fmt.Errorf("%q: expected such as p99<1ms, throughput>=50000 or errors<1", text)
	}
	o := Objective{Text: strings.TrimSpace(text), name: parts[1], above: parts[2][0] == '>', equal: strings.HasSuffix(parts[2], "=")}
	var names []string
	for _, known := range objectives {
		names = append(names, known.name)
		if known.name != o.name {
			continue
		}
		if known.time {
			d, err := time.ParseDuration(parts[3])
			if err != nil || d <= 0 {
				return Objective{}, fmt.Errorf("%q: expected a duration such as 1ms, not %q", text, parts[3])
			}
			o.bound = d.Seconds()
			return o, nil
		}
		bound, err := strconv.ParseFloat(parts[3], 64)
		if err != nil || !(bound >= 0 && bound <= 1e18) {
			return Objective{}, fmt.Errorf("%q: expected a number, not %q", text, parts[3])
		}
		o.bound = bound
		return o, nil
	}
	return Objective{}, fmt.Errorf("%q: %q is none of %s", text, o.name, strings.Join(names, ", "))
}

// Missed says how a result missed the objective; "" if it met it. A load without a reply meets none, and one with requests that were
// due but could not be sent meets no objective for times, as the times don't include those.
func (o Objective) Missed(r *Result) string {
	for _, known := range objectives {
		if known.name != o.name {
			continue
		}
		value := known.of(r)
		written := strconv.FormatFloat(value, 'f', -1, 64)
		switch {
		case known.time:
			written = time.Duration(value * 1e9).String()
		case known.name == "throughput":
			written = fmt.Sprintf("%.0f/s", value)
		}
		switch {
		case r.Total.Requests == 0:
			return o.Text + ": no request was answered"
		case known.time && r.Pace != nil && r.Pace.Unsent > 0:
			return fmt.Sprintf("%s: %d requests were due and could not be sent; without them %s is %s", o.Text, r.Pace.Unsent, o.name, written)
		case o.equal && value == o.bound, o.above && value > o.bound, !o.above && value < o.bound:
			return ""
		}
		return fmt.Sprintf("%s: %s is %s", o.Text, o.name, written)
	}
	return ""
}
