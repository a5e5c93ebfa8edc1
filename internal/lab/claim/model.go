package claim

import (
	"context"
	"fmt"
	"math"
	"strings"

	"mcmw/internal/lab/model"
)

// Model: a queueing model predicts the response time well near a ratio of clients to workers, such as 1, and worse elsewhere.
type Model struct {
	Record string `yaml:"record"`
	Name   string `yaml:"name"` // of package model, such as M/M/m
	// Near is where it is good: clients divided by the workers of all middlewares. Error is the greatest mean of the relative errors, as absolute
	// values, that is good.
	Near  Range   `yaml:"near"`
	Error float64 `yaml:"error"`
}

func (m *Model) records() []string { return []string{m.Record} }

func (m *Model) check() error {
	errs := []error{checkRecord(m.Record), m.Near.check(), checkPart("error", m.Error)}
	var names []string
	known := false
	for _, k := range model.Models {
		names = append(names, k.Name)
		known = known || k.Name == m.Name
	}
	if !known {
		errs = append(errs, fmt.Errorf("name %q: expected one of %s", m.Name, strings.Join(names, ", ")))
	}
	return first("model", errs...)
}

func (m *Model) decide(ctx context.Context, e *view) (Verdict, string) {
	runs, why := e.runs(Selection{Record: m.Record})
	if why != "" {
		return NotComparable, why
	}
	data, err := model.Read(ctx, e.pick(m.Record, e.delay).record)
	if err != nil {
		return NotComparable, err.Error()
	}
	var near, far []float64
	for _, of := range model.NewReport(data).Models {
		if of.Name != m.Name {
			continue
		}
		for i, p := range data.Points {
			error := math.Abs(of.All[i].R-p.R.Mean) / p.R.Mean
			if math.IsNaN(error) || math.IsInf(error, 0) {
				continue
			}
			if ratio := float64(p.Clients) / float64(p.AllWorkers()); m.Near.holds(ratio, ratio) {
				near = append(near, error)
			} else {
				far = append(far, error)
			}
		}
	}
	if len(near) == 0 || len(far) == 0 {
		return NotComparable, fmt.Sprintf("%s predicts %d points of %s near saturation and %d away from it; some of both are needed", m.Name, len(near), m.Record, len(far))
	}
	a, b := mean(near), mean(far)
	text := fmt.Sprintf("%s is off by %.0f %% in the mean over %d points with %s clients per worker and by %.0f %% over %d others; expected at most %.0f %%, and more elsewhere",
		m.Name, 100*a, len(near), m.Near.words(func(v float64) string { return fmt.Sprint(v) }), 100*b, len(far), 100*m.Error)
	return judge(decided(a <= m.Error && b > a), text, e.exhausted(m.Record, runs))
}

func mean(values []float64) (sum float64) {
	for _, v := range values {
		sum += v / float64(len(values))
	}
	return sum
}
