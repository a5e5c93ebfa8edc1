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
	Text     string
	quantity quantity
	above    bool // the value must be above the bound, otherwise below it
	equal    bool // the value may equal the bound
	bound    float64
}

// quantity is a quantity of a result, a time in seconds or a number.
type quantity struct {
	name string
	of   func(*Result) float64
	time bool
}

var quantities = []quantity{
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

// ParseObjective parses a name, an operator of < <= > >=, and a bound: a duration for times, otherwise a number.
func ParseObjective(text string) (Objective, error) {
	parts := objectiveForm.FindStringSubmatch(text)
	if parts == nil {
		return Objective{}, fmt.Errorf("%q: expected a name, an operator and a bound, such as p99<1ms, throughput>=50000 or errors<1", text)
	}
	o := Objective{Text: strings.TrimSpace(text), above: parts[2][0] == '>', equal: strings.HasSuffix(parts[2], "=")}
	var names []string
	for _, q := range quantities {
		names = append(names, q.name)
		if q.name == parts[1] {
			o.quantity = q
		}
	}
	switch {
	case o.quantity.name == "":
		return Objective{}, fmt.Errorf("%q: %q is not one of %s", text, parts[1], strings.Join(names, ", "))
	case o.quantity.time:
		d, err := time.ParseDuration(parts[3])
		if err != nil || d <= 0 {
			return Objective{}, fmt.Errorf("%q: expected a duration such as 1ms, not %q", text, parts[3])
		}
		o.bound = d.Seconds()
	default:
		bound, err := strconv.ParseFloat(parts[3], 64)
		if err != nil || !(bound >= 0 && bound <= 1e18) {
			return Objective{}, fmt.Errorf("%q: expected a number, not %q", text, parts[3])
		}
		o.bound = bound
	}
	return o, nil
}

// Missed says how a result misses the objective; "" if it meets it. A result without replies misses every objective. A result with requests that were
// due but not sent misses every objective about times, because the times don't include these requests.
func (o Objective) Missed(r *Result) string {
	q := o.quantity
	value := q.of(r)
	written := strconv.FormatFloat(value, 'f', -1, 64)
	switch {
	case q.time:
		written = time.Duration(value * 1e9).String()
	case q.name == "throughput":
		written = fmt.Sprintf("%.0f/s", value)
	}
	switch {
	case r.Total.Requests == 0:
		return o.Text + ": no request was answered"
	case q.time && r.Pace != nil && r.Pace.Unsent > 0:
		return fmt.Sprintf("%s: %d requests were due but could not be sent; without them %s is %s", o.Text, r.Pace.Unsent, q.name, written)
	case o.equal && value == o.bound, o.above && value > o.bound, !o.above && value < o.bound:
		return ""
	}
	return fmt.Sprintf("%s: %s is %s", o.Text, q.name, written)
}
