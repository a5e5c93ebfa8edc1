package claim

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"

	"mcmw/lab/model"
)

// Model requires that a queueing model predicts the response time well near some ratio of clients to workers, such as 1, and worse elsewhere.
type Model struct {
	Record string `yaml:"record"`
	Name   string `yaml:"name"` // in package model, such as M/M/m
	// Near is the range of clients divided by the workers of all middlewares in which the model must be good. Error is the largest mean of
	// the absolute relative errors that counts as good.
	Near  Range   `yaml:"near"`
	Error float64 `yaml:"error"`
}

func (m *Model) records() []string { return []string{m.Record} }

func (m *Model) check() error {
	errs := []error{checkRecord(m.Record), m.Near.check(), checkPart("error", m.Error)}
	var names []string
	for _, k := range model.Models {
		names = append(names, k.Name)
	}
	if !slices.Contains(names, m.Name) {
		errs = append(errs, fmt.Errorf("name %q: expected one of %s", m.Name, strings.Join(names, ", ")))
	}
	return first("model", errs...)
}

func (m *Model) decide(e *view) (Verdict, string) {
	runs, why := e.runs(Selection{Record: m.Record})
	if why != "" {
		return NotComparable, why
	}
	set := e.pick(m.Record, e.delay)
	data, err := model.FromRuns(set.manifest, set.runs)
	if err != nil {
		return NotComparable, err.Error()
	}
	var near, far []float64
	for _, of := range model.Fitted(data).Models {
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
	a, b := stat.Mean(near, nil), stat.Mean(far, nil)
	text := fmt.Sprintf("%s is off by %.0f %% on average at %d points with %s clients per worker and by %.0f %% at %d others; expected at most %.0f %%, and more elsewhere",
		m.Name, 100*a, len(near), m.Near.words(func(v float64) string { return fmt.Sprint(v) }), 100*b, len(far), 100*m.Error)
	return judge(decided(a <= m.Error && b > a), text, e.exhausted(m.Record, runs))
}
