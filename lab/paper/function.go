package paper

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"

	"mcmw/lab/check"
	"mcmw/lab/condition"
	"mcmw/lab/experiment"
	"mcmw/lab/frame"
	"mcmw/lab/model"
	"mcmw/lab/record"
	"mcmw/lab/report"
	"mcmw/lab/sample"
)

// law is the function that needs no machines, and no runs: without them it is about all records of the report.
const law = "law_error"

// function is what a condition can be about. judge returns the verdict on a condition and its text.
type function struct {
	arguments string
	judge     func(e *view, c condition.Condition) (Verdict, string)
}

// functions has all of them; docs/results/paper.md describes them.
var functions map[string]function

var scope condition.Scope

func init() {
	functions = map[string]function{
		"plateau":     {"metric factor", (*view).plateau},
		"knee":        {"metric factor", (*view).knee},
		"ratio":       {"metric runs", (*view).ratio},
		"share":       {"metric part", (*view).share},
		"lead":        {"metric part", (*view).lead},
		"model_error": {"metric model range", (*view).modelError},
		law:           {"metric", (*view).lawError},
		"bottleneck":  {"runs", (*view).bottleneck},
	}
	var settings, models []string
	for _, s := range experiment.Settings {
		settings = append(settings, s.Name)
	}
	for _, m := range model.Models {
		models = append(models, m.Name)
	}
	scope = condition.Scope{
		Source: record.SourceClient, Runs: true, Functions: map[string]string{},
		Known: map[string]func(string) error{
			"factor": condition.Suggest("a setting of experiments", settings),
			"part": condition.Suggest("a setting of experiments, or "+Interactions,
				append(slices.Clone(settings), Interactions)),
			"model": condition.Suggest("one of "+strings.Join(models, ", "), models),
		},
	}
	for name, f := range functions {
		scope.Functions[name] = f.arguments
	}
}

const (
	confidence = report.DefaultConfidence
	// close is the largest difference, relative to the highest mean, that counts as none. last is how many levels a
	// plateau has.
	close = 0.05
	last  = 2
)

// plateau judges, on every line over a factor, the means at its last levels, which must hardly differ.
func (e *view) plateau(c condition.Condition) (Verdict, string) {
	runs, why := e.runs(c.Term.Runs[0])
	if why != "" {
		return NotComparable, why
	}
	over, metric := c.Term.Words[0], c.Term.Metric
	verdict := condition.Holds
	var texts []string
	var used []record.Run
	for _, l := range lines(runs, over) {
		if len(l.Points) < last {
			return NotComparable, fmt.Sprintf("%s has %d levels of %s; %d are needed",
				named(c.Term.Runs[0].Record, l.Name()), len(l.Points), over, last)
		}
		var least, most sample.Estimate
		var levels []string
		for _, p := range l.Points[len(l.Points)-last:] {
			m, ok := estimate(p, metric)
			if !ok {
				return NotComparable, e.unmeasured(c)
			}
			verdict = condition.All(verdict, c.Judge(m.Interval))
			if !least.OK() || m.Mean < least.Mean {
				least = m
			}
			if !most.OK() || m.Mean > most.Mean {
				most = m
			}
			used, levels = append(used, p.Runs...), append(levels, p.Levels[over])
		}
		if most.Mean-least.Mean > close*math.Abs(least.Mean) {
			verdict = condition.All(verdict, apart(least, most))
		}
		texts = append(texts, fmt.Sprintf("%s%s to %s at %s %s", prefix(l), meanOf(metric, least),
			meanOf(metric, most), over, strings.Join(levels, ", ")))
	}
	text := fmt.Sprintf("%s; expected %s, within %.3g %%", brief(texts), c.Expected(show(metric)), 100*close)
	return judged(verdict, text, e.exhausted(c.Term.Runs[0], used))
}

// apart returns Broken if the confidence intervals of two means don't overlap, else Unknown.
func apart(a, b sample.Estimate) condition.Verdict {
	if a.Overlaps(b.Interval) {
		return condition.Unknown
	}
	return condition.Broken
}

// knee judges, on every line over a factor, the least level at which the metric is close to its highest mean. It lies
// between the first measured level at which the metric is close and the level before.
func (e *view) knee(c condition.Condition) (Verdict, string) {
	runs, why := e.runs(c.Term.Runs[0])
	if why != "" {
		return NotComparable, why
	}
	over, verdict := c.Term.Words[0], condition.Holds
	var texts []string
	for _, l := range lines(runs, over) {
		at, text, why := e.kneeOf(l, c)
		if why != "" {
			return NotComparable, why
		}
		verdict = condition.All(verdict, between(c, at))
		texts = append(texts, prefix(l)+text)
	}
	text := fmt.Sprintf("%s; expected %s %s", brief(texts), over,
		c.Expected(func(v float64) string { return fmt.Sprint(v) }))
	return judged(verdict, text, e.exhausted(c.Term.Runs[0], runs))
}

// between judges the level of saturation, which is above the interval's low end and at most its high end.
func between(c condition.Condition, at sample.Interval) condition.Verdict {
	switch {
	case at.High < c.Low, at.Low >= c.High:
		return condition.Broken
	case at.High > c.High, at.High > c.Low && at.Low < c.Low && !math.IsInf(at.Low, -1):
		return condition.Unknown
	}
	return condition.Holds
}

// kneeOf returns the interval of levels in which a line becomes saturated: above the low end, and at most at the high
// end. Levels with intervals that overlap that of the highest mean may already be saturated.
func (e *view) kneeOf(l frame.Line, c condition.Condition) (at sample.Interval, text, why string) {
	over, metric := c.Term.Words[0], c.Term.Metric
	means := make([]sample.Estimate, len(l.Points))
	highest := 0
	for i, p := range l.Points {
		m, ok := estimate(p, metric)
		if !ok {
			return at, "", e.unmeasured(c)
		}
		if means[i] = m; m.Mean > means[highest].Mean {
			highest = i
		}
	}
	if len(means) < 2 {
		return at, "", fmt.Sprintf("%s has one level of %s; two are needed", named(c.Term.Runs[0].Record, l.Name()),
			over)
	}
	saturated := slices.IndexFunc(means, func(m sample.Estimate) bool {
		return m.Mean >= (1-close)*means[highest].Mean
	})
	before := slices.IndexFunc(means, func(m sample.Estimate) bool {
		return m.N > 1 && m.Overlaps(means[highest].Interval)
	})
	if before < 0 || before > saturated {
		before = saturated
	}
	at = sample.Interval{Low: math.Inf(-1)}
	for i, end := range []*float64{&at.Low, &at.High} {
		level := []int{before - 1, saturated}[i]
		if level < 0 {
			continue
		}
		number, ok := l.Points[level].Number(over)
		if !ok {
			return at, "", fmt.Sprintf("the level %q of %s is not a number", l.Points[level].Levels[over], over)
		}
		*end = number
	}
	text = fmt.Sprintf("saturated from %s %s, %s of %s at most", over, l.Points[saturated].Levels[over],
		meanOf(metric, means[saturated]), meanOf(metric, means[highest]))
	if before > 0 {
		text += fmt.Sprintf(", surely not at %s", l.Points[before-1].Levels[over])
	}
	return at, text, ""
}

// ratio judges the ratio of a metric at one point to that at another.
func (e *view) ratio(c condition.Condition) (Verdict, string) {
	var sides [2]side
	for i, runs := range c.Term.Runs {
		var why string
		if sides[i], why = e.point(runs); why != "" {
			return NotComparable, why
		}
	}
	metric, of, to := c.Term.Metric, sides[0], sides[1]
	a, okA := estimate(of.point, metric)
	b, okB := estimate(to.point, metric)
	if !okA || !okB || b.Mean == 0 {
		return NotComparable, fmt.Sprintf("%s.%s was not measured at %s or %s", metric.Source, metric.Name, of.name,
			to.name)
	}
	write := show(metric)
	ratio := sample.Ratio(a.Moments, b.Moments, confidence)
	text := fmt.Sprintf("%s at %s to %s at %s: ratio %.3g", write(a.Mean), of.name, write(b.Mean), to.name, ratio.Mean)
	if !ratio.Known() {
		return Undecided, text + ", its interval is unbounded: more repetitions are needed"
	}
	text += fmt.Sprintf(" (%.3g to %.3g at %.0f %%); expected %s", ratio.Low, ratio.High, 100*confidence,
		c.Expected(func(v float64) string { return fmt.Sprintf("%.3g", v) }))
	if e.capped(c, of, to) {
		return NotComparable, text + "; both are limited by the " + loadsUpload + ", whatever is behind it"
	}
	ofExhausted, toExhausted := e.exhausted(c.Term.Runs[0], of.runs), e.exhausted(c.Term.Runs[1], to.runs)
	if verdict := despiteExhaustion(c, ratio.Interval, ofExhausted != "", toExhausted != ""); verdict != "" {
		return verdicts[verdict], text + ", all the more because " + ofExhausted + toExhausted
	}
	return judged(c.Judge(ratio.Interval), text, ofExhausted, toExhausted)
}

// despiteExhaustion returns a verdict that is certain although one side exhausted its processors; else "". Waiting for
// processors lowers throughputs and increases times, so the direction in which it moves the ratio is known. The
// condition holds if all of the interval fulfils it although the ratio was moved away from it, and is broken if none
// does although it was moved towards it.
func despiteExhaustion(c condition.Condition, i sample.Interval, ofExhausted, toExhausted bool) condition.Verdict {
	_, high := c.Bound()  // whether a high ratio is required
	raised := ofExhausted // whether waiting increases the ratio
	switch name := c.Term.Metric.Name; {
	case ofExhausted == toExhausted || !math.IsInf(c.Low, 0) && !math.IsInf(c.High, 0):
		return ""
	case strings.HasPrefix(name, "throughput"):
		raised = !ofExhausted
	case !strings.HasPrefix(name, "response_time"):
		return ""
	}
	switch verdict := c.Judge(i); {
	case verdict == condition.Holds && raised != high, verdict == condition.Broken && raised == high:
		return verdict
	default:
		return ""
	}
}

// capped reports whether the load's upload limits the clients' throughput on both sides: both are then equal, whatever
// is behind it. It is false for findings about the testbed's settings.
func (e *view) capped(c condition.Condition, of, to side) bool {
	limited := func(s side) bool { return s.set.Limit(s.point).Name == loadsUpload }
	return e.claim.Construction == "" && c.Term.Metric.Source == record.SourceClient &&
		strings.HasPrefix(c.Term.Metric.Name, "throughput") && limited(of) && limited(to)
}

// loadsUpload is the name of the load machines' upload in package report.
const loadsUpload = "upload of the load machines"

// lawError judges the largest error of R = N/X - Z (Jain, section 33.4), relative to the response time of the clients,
// in the runs of closed loops.
func (e *view) lawError(c condition.Condition) (Verdict, string) {
	names := e.claim.Needs()
	if len(names) == 0 {
		names = slices.DeleteFunc(slices.Sorted(maps.Keys(e.sets)),
			func(name string) bool { return !strings.HasPrefix(name, e.report+"-") })
	}
	if len(names) == 0 {
		return NotComparable, "there is no record of " + e.report
	}
	runs, worst, where := 0, 0.0, ""
	for _, name := range names {
		set, why := e.set(name)
		if why != "" {
			return NotComparable, why
		}
		for _, run := range set.All() {
			// A run may violate the check of this law: that is the question here.
			if code := defect(run); run.State != record.Complete || code != "" && code != check.InteractiveLaw {
				continue
			}
			predicted, measured, ok := frame.ByLaw(run, c.Term.Metric.Source)
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
	text := fmt.Sprintf("off by at most %+.2f %% (%s) in %d valid runs; expected within %.3g %%", 100*worst, where,
		runs, 100*c.High)
	return verdicts[condition.Of(c.Holds(math.Abs(worst)))], text
}

// bottleneck judges which component limits a point; names are the beginnings of those of components.
func (e *view) bottleneck(c condition.Condition) (Verdict, string) {
	s, why := e.point(c.Term.Runs[0])
	if why != "" {
		return NotComparable, why
	}
	limit := s.set.Limit(s.point)
	text := fmt.Sprintf("%s: %s; the report's cause: %s", s.name, limit.Words, strings.Join(c.Names, " or "))
	if limit.Name == "" {
		return Undecided, text
	}
	is := func(name string) bool { return strings.HasPrefix(limit.Name, name) }
	return judged(condition.Of(slices.ContainsFunc(c.Names, is)), text, e.exhausted(c.Term.Runs[0], s.runs))
}

// modelError judges the error of a queueing model: the mean of the absolute relative errors of the response time at the
// points whose clients per worker are in a range. The condition is broken, too, if the model is as good at the other
// points.
func (e *view) modelError(c condition.Condition) (Verdict, string) {
	name := c.Term.Runs[0].Record
	runs, why := e.runs(c.Term.Runs[0])
	if why != "" {
		return NotComparable, why
	}
	data, err := model.FromRuns(e.pick(name, e.delay).Manifest, e.pick(name, e.delay).Runs())
	if err != nil {
		return NotComparable, err.Error()
	}
	var near, far []float64
	for _, of := range model.Fitted(data).Models {
		if of.Name != c.Term.Words[0] {
			continue
		}
		for i, p := range data.Points {
			error := math.Abs(of.All[i].R-p.R.Mean) / p.R.Mean
			if math.IsNaN(error) || math.IsInf(error, 0) {
				continue
			}
			ratio := float64(p.Clients) / float64(p.AllWorkers())
			if ratio >= c.Term.Range.Low && ratio <= c.Term.Range.High {
				near = append(near, error)
			} else {
				far = append(far, error)
			}
		}
	}
	if len(near) == 0 || len(far) == 0 {
		return NotComparable,
			fmt.Sprintf("%s predicts %d points of %s near saturation and %d away from it; some of both are needed",
				c.Term.Words[0], len(near), name, len(far))
	}
	a, b := stat.Mean(near, nil), stat.Mean(far, nil)
	text := fmt.Sprintf("%s is off by %.0f %% on average at %d points with %v to %v clients per worker and by %.0f "+
		"%% at %d others; expected at most %.0f %%, and more elsewhere",
		c.Term.Words[0], 100*a, len(near), c.Term.Range.Low, c.Term.Range.High, 100*b, len(far), 100*c.High)
	return judged(condition.Of(c.Holds(a) && b > a), text, e.exhausted(c.Term.Runs[0], runs))
}
