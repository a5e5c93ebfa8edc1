package paper

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"mcmw/lab/check"
	"mcmw/lab/condition"
	"mcmw/lab/frame"
	"mcmw/lab/record"
	"mcmw/lab/report"
	"mcmw/lab/sample"
)

// Evidence has the records from which claims are decided: for each experiment one record for each delay.
type Evidence struct {
	sets map[string][]*report.Data // by the name of the experiment, in ascending order of the delay
}

// NewEvidence reads records, which must stay open while claims are decided. Records of the same experiment must have
// different delays.
func NewEvidence(ctx context.Context, records []*record.Record) (*Evidence, error) {
	e := &Evidence{sets: map[string][]*report.Data{}}
	for _, r := range records {
		name := r.Manifest().Name
		for _, other := range e.sets[name] {
			if sameDelay(DelayOf(other.Manifest), DelayOf(r.Manifest())) {
				return nil, fmt.Errorf("%s and %s are both records of %s; expected only one of them", other.Dir,
					r.Dir(),
					name)
			}
		}
		d, err := report.Read(ctx, r, confidence, nil)
		if err != nil {
			return nil, err
		}
		e.sets[name] = append(e.sets[name], d)
	}
	for _, sets := range e.sets {
		slices.SortFunc(sets,
			func(a, b *report.Data) int { return cmp.Compare(DelayOf(a.Manifest), DelayOf(b.Manifest)) })
	}
	return e, nil
}

// DelayOf returns the one-way delay of packets between the emulated machines of a record, seconds; 0 if the machines
// aren't emulated, or packets can't be delayed.
func DelayOf(m record.Manifest) (delay float64) {
	for _, machine := range m.Machines {
		delay = max(delay, machine.Delay)
	}
	return delay
}

// sameDelay reports whether delays are equal except for rounding.
func sameDelay(a, b float64) bool { return math.Abs(a-b) < 1e-6 }

// pick returns the record of an experiment with a delay or, if there is none, the one with the least delay; nil if
// there is no record.
func (e *Evidence) pick(name string, delay float64) *report.Data {
	sets := e.sets[name]
	if len(sets) == 0 {
		return nil
	}
	return sets[max(0, slices.IndexFunc(sets, func(d *report.Data) bool {
		return sameDelay(DelayOf(d.Manifest),
			delay)
	}))]
}

// delays returns the delays for which there are records of all named experiments, ascending.
func (e *Evidence) delays(names []string) (delays []float64) {
	if len(names) == 0 {
		return nil
	}
	for _, first := range e.sets[names[0]] {
		delay := DelayOf(first.Manifest)
		if delay > 0 && !slices.ContainsFunc(names,
			func(n string) bool { s := e.pick(n, delay); return s == nil || !sameDelay(DelayOf(s.Manifest), delay) }) {
			delays = append(delays, delay)
		}
	}
	return delays
}

// used is the utilization from which processors count as saturated.
const used = 0.9

// invalid are the checks whose violation excludes a run. Violations of other checks only widen the intervals.
var invalid = []string{
	check.InteractiveLaw, check.FlowClient, check.GeneratorSaturated, check.OtherLoad, check.Misses, check.Errors,
}

// valid returns the runs that violate none of these checks, or all if there is none.
func valid(runs []record.Run) []record.Run {
	sound := slices.DeleteFunc(slices.Clone(runs), func(run record.Run) bool { return defect(run) != "" })
	if len(sound) == 0 {
		return runs
	}
	return sound
}

// defect returns the first check of invalid that the run violates; "" if there is none.
func defect(run record.Run) string {
	for _, w := range run.Warnings {
		if slices.Contains(invalid, w.Code) {
			return w.Code
		}
	}
	return ""
}

// view is the evidence for one claim with one delay.
type view struct {
	*Evidence
	report string // its name
	claim  Claim
	delay  float64 // of the records; 0: any
	// shares has the shares of the variation by factor, if the rule is about these.
	shares map[string]float64
}

// nameOf returns a name of runs such as "sweep (workers=8)".
func nameOf(r condition.Runs) string {
	return named(r.Record, record.Label(r.Where, slices.Sorted(maps.Keys(r.Where))))
}

// named returns a record's name with that of a line.
func named(record, line string) string {
	if line == "" {
		return record
	}
	return record + " (" + line + ")"
}

// set returns the record of an experiment, or why it can't decide the claim.
func (e *view) set(name string) (s *report.Data, why string) {
	s = e.pick(name, e.delay)
	machines := slices.ContainsFunc(e.claim.Holds,
		func(c condition.Condition) bool { return c.Term.Function != law }) // whether it depends on the report's
	switch {
	case s == nil:
		return nil, "there is no record of " + name
	case machines && s.Manifest.Testbed == "local":
		return nil,
			fmt.Sprintf("the record of %s was made on the testbed local, which doesn't have the bandwidths of the "+
				"report's machines", name)
	case e.claim.Delay && len(s.Manifest.Machines) > 0 && DelayOf(s.Manifest) == 0:
		return nil,
			fmt.Sprintf("in the record of %s packets have no delay (its kernel can't delay them), so that workers "+
				"hardly wait", name)
	case e.claim.Delay && e.delay > 0 && len(s.Manifest.Machines) > 0 && !sameDelay(DelayOf(s.Manifest), e.delay):
		return nil,
			fmt.Sprintf("the record of %s was made with a delay of %s, not with %s as all of the report's suites", name,
				milliseconds(DelayOf(s.Manifest)), milliseconds(e.delay))
	}
	return s, ""
}

// runs returns the valid runs of a selection, or the reason why they can't decide: every point needs a valid run.
func (e *view) runs(s condition.Runs) (runs []record.Run, why string) {
	set, why := e.set(s.Record)
	if why != "" {
		return nil, why
	}
	for _, p := range frame.Of(set.All(), confidence).Points {
		if !p.Has(s.Where) {
			continue
		}
		var valid []record.Run
		var defects []string
		if p.Failed != nil {
			defects = append(defects, check.RunFailed)
		}
		for _, run := range p.Runs {
			if code := defect(run); code != "" {
				defects = append(defects, code)
			} else {
				valid = append(valid, run)
			}
		}
		if len(valid) == 0 {
			slices.Sort(defects)
			return nil, fmt.Sprintf("%s has no valid run at %s (%s)", s.Record,
				record.Label(p.Levels, record.Varying(set.All())), strings.Join(slices.Compact(defects), ", "))
		}
		runs = append(runs, valid...)
	}
	if len(runs) == 0 {
		return nil, "there are no runs of " + nameOf(s)
	}
	return runs, ""
}

// exhausted returns a text if some of the runs saturated the processors; else "".
func (e *view) exhausted(of condition.Runs, runs []record.Run) string {
	set := e.pick(of.Record, e.delay)
	saturated, most := 0, 0.0
	for _, run := range runs {
		load, err := set.MachineBusy(run)
		if err != nil {
			return err.Error()
		}
		if load >= used {
			saturated++
		}
		most = max(most, load)
	}
	if saturated == 0 {
		return ""
	}
	return fmt.Sprintf("the processors of the machine were in use for up to %.0f %% of the time (%d of %d runs of %s "+
		"above %.0f %%)", 100*most, saturated, len(runs), of.Record, 100*used)
}

// judged returns the verdict and the text of a condition: NotComparable if there is a text about exhausted processors.
func judged(verdict condition.Verdict, text string, exhausted ...string) (Verdict, string) {
	for _, why := range exhausted {
		if why != "" {
			return NotComparable, text + "; " + why
		}
	}
	return verdicts[verdict], text
}

// side is a point, with the runs of its selection and its name.
type side struct {
	point frame.Point
	runs  []record.Run
	name  string
	set   *report.Data
}

// point returns the only point of some runs, or the one with the highest throughput of the clients; or why there is
// none.
func (e *view) point(r condition.Runs) (s side, why string) {
	if s.runs, why = e.runs(r); why != "" {
		return s, why
	}
	points := frame.Of(s.runs, confidence).Points
	varying := record.Varying(s.runs)
	if len(points) > 1 && !r.Highest {
		return s, fmt.Sprintf("%s has several points: %s vary", nameOf(r), strings.Join(varying, ", "))
	}
	most := -1.0
	for _, candidate := range points {
		if m, ok := estimate(candidate, frame.Metric{Source: record.SourceClient, Name: "throughput"}); ok &&
			m.Mean > most {
			s.point, most = candidate, m.Mean
		}
	}
	if most < 0 {
		return s, fmt.Sprintf("no throughput was measured in %s", nameOf(r))
	}
	s.name, s.set = nameOf(r), e.pick(r.Record, e.delay)
	if r.Highest && len(varying) > 0 {
		s.name += ", " + record.Label(s.point.Levels, varying)
	}
	return s, ""
}

// unmeasured says that a condition's metric was not measured.
func (e *view) unmeasured(c condition.Condition) string {
	return fmt.Sprintf("%s.%s was not measured in %s", c.Term.Metric.Source, c.Term.Metric.Name, c.Term.Runs[0].Record)
}

// listed is the largest number of texts that brief shows.
const listed = 6

// brief joins the first few texts.
func brief(texts []string) string {
	if len(texts) > listed {
		texts = append(slices.Clone(texts[:listed]), fmt.Sprintf("and %d more", len(texts)-listed))
	}
	return strings.Join(texts, "; ")
}

// prefix returns a line's name before a text about it; "" if there is one line.
func prefix(l frame.Line) string {
	if len(l.Levels) == 0 {
		return ""
	}
	return l.Name() + ": "
}

// lines groups runs into lines over a factor, one for each combination of the other varying factors, in the order of
// their names.
func lines(runs []record.Run, over string) []frame.Line {
	others := slices.DeleteFunc(record.Varying(runs), func(name string) bool { return name == over })
	all := frame.Of(runs, confidence).Lines(over, others)
	slices.SortFunc(all, func(a, b frame.Line) int { return strings.Compare(a.Name(), b.Name()) })
	return all
}

// estimate returns the mean of a metric over the runs of a point; false if a run doesn't have it.
func estimate(p frame.Point, metric frame.Metric) (sample.Estimate, bool) {
	e := p.Estimate(metric.Source, metric.Name)
	return e, int(e.N) == len(p.Runs)
}

// meanOf returns a mean with the half width of its confidence interval, which a single run doesn't have.
func meanOf(metric frame.Metric, e sample.Estimate) string {
	return e.Format(show(metric)(e.Mean), " ± %.2g %%")
}

// show returns the format of a metric's values.
func show(metric frame.Metric) func(float64) string {
	m, _ := record.Describe(metric.Name)
	switch m.Unit {
	case record.OperationsPerSecond:
		return func(v float64) string { return fmt.Sprintf("%.0f ops/s", v) }
	case record.Seconds:
		return func(v float64) string { return fmt.Sprintf("%.3g ms", 1e3*v) }
	default:
		return func(v float64) string { return fmt.Sprintf("%.4g", v) }
	}
}
