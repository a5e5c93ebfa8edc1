package capacity

import (
	"errors"
	"fmt"

	"mcmw/lab/condition"
	"mcmw/lab/frame"
	"mcmw/lab/record"
)

// Rule defines the quality of service, and the factor that is raised until it is violated.
type Rule struct {
	Condition  condition.Condition `json:"condition"`  // on the mean of a metric
	Over       string              `json:"over"`       // the raised factor
	Confidence float64             `json:"confidence"` // one-sided, of each level's bounds; more than 0.5
}

// ParseCondition reads the condition of a rule.
func ParseCondition(text string) (condition.Condition, error) {
	return condition.Parse(text, condition.Scope{Source: record.SourceClient, Functions: map[string]string{"": ""}})
}

// DefaultRule is the quality of service of the 2016 thesis on memcached and Redis, section 1.3.1: 99 % of the requests
// in less than 1 ms.
func DefaultRule() Rule {
	c, err := ParseCondition("client.response_time_p99 < 1ms")
	if err != nil {
		panic(err)
	}
	return Rule{Condition: c, Over: "clients", Confidence: 0.95}
}

// frame groups runs with estimates whose bounds have the rule's confidence: one-sided bounds of confidence c are those
// of the two-sided interval of confidence 2c - 1.
func (r Rule) frame(runs []record.Run) frame.Frame { return frame.Of(runs, 2*r.Confidence-1) }

// String returns the condition.
func (r Rule) String() string { return r.Condition.Text }

// show writes a value of the metric.
func (r Rule) show(v float64) string { return record.Format(r.Condition.Term.Metric.Name, v) }

// Check returns the problems of the rule; nil if there are none.
func (r Rule) Check() error {
	var problems []error
	if !(r.Confidence > 0.5 && r.Confidence < 1) {
		problems = append(problems, fmt.Errorf("confidence %v: expected more than 0.5 and less than 1, such as 0.95",
			r.Confidence))
	}
	if r.Over == "" {
		problems = append(problems, errors.New("the raised factor is missing: expected one such as clients"))
	}
	return errors.Join(problems...)
}
