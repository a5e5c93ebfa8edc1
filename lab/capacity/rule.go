package capacity

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"mcmw/lab/record"
)

// Rule defines the quality of service, and the factor that is raised until it is violated.
type Rule struct {
	Source     string  `json:"source"` // of the metric, such as client
	Metric     string  `json:"metric"`
	Below      float64 `json:"below"`      // the limit, in the metric's unit
	Over       string  `json:"over"`       // the raised factor
	Confidence float64 `json:"confidence"` // one-sided, of each level's bounds; more than 0.5
}

// DefaultRule is the quality of service of the 2016 thesis on memcached and Redis, section 1.3.1: 99 % of the requests in less than 1 ms.
func DefaultRule() Rule {
	return Rule{Source: record.SourceClient, Metric: "response_time_p99", Below: 1e-3, Over: "clients", Confidence: 0.95}
}

// String returns the condition: "response_time_p99 < 1.00 ms at the client".
func (r Rule) String() string {
	return fmt.Sprintf("%s < %s at %s", r.Metric, record.Format(r.Metric, r.Below), r.Source)
}

// Check returns the problems of the rule; nil if there are none.
func (r Rule) Check() error {
	var problems []error
	if _, known := record.Describe(r.Metric); !known {
		problems = append(problems, fmt.Errorf("unknown metric %q: expected one such as response_time_p99", r.Metric))
	}
	if !(r.Below > 0) || math.IsInf(r.Below, 0) {
		problems = append(problems, fmt.Errorf("limit %v: expected more than 0", r.Below))
	}
	if !(r.Confidence > 0.5 && r.Confidence < 1) {
		problems = append(problems, fmt.Errorf("confidence %v: expected more than 0.5 and less than 1, such as 0.95", r.Confidence))
	}
	if r.Over == "" {
		problems = append(problems, errors.New("the raised factor is missing: expected one such as clients"))
	}
	return errors.Join(problems...)
}

// ParseLimit reads a limit of a metric: a number in the metric's unit or, for a time, a duration such as 1ms.
func ParseLimit(metric, text string) (float64, error) {
	m, _ := record.Describe(metric)
	v, err := strconv.ParseFloat(text, 64)
	if m.Unit == record.Seconds && err != nil {
		var d time.Duration
		if d, err = time.ParseDuration(text); err == nil {
			v = d.Seconds()
		}
	}
	if err != nil || !(v > 0) || math.IsInf(v, 0) {
		expected := "a number more than 0"
		if m.Unit == record.Seconds {
			expected = "a duration such as 1ms, or a number of seconds, more than 0"
		}
		return 0, fmt.Errorf("%.60q: expected %s", text, expected)
	}
	return v, nil
}
