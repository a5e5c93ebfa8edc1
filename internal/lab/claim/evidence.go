package claim

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"mcmw/internal/lab/check"
	"mcmw/internal/lab/record"
	"mcmw/internal/lab/sample"
)

// Evidence is the records that claims are held against, by the names of their experiments.
type Evidence struct {
	sets map[string]*set
}

// set is one record.
type set struct {
	record   *record.Record
	manifest record.Manifest
	runs     []record.Run
	busy     map[int64]float64 // by run, as it is read
}

// NewEvidence reads records, which must stay open while claims are decided. Of one experiment there may be one record.
func NewEvidence(ctx context.Context, records []*record.Record) (*Evidence, error) {
	e := &Evidence{sets: map[string]*set{}}
	for _, r := range records {
		name := r.Manifest().Name
		if other := e.sets[name]; other != nil {
			return nil, fmt.Errorf("%s and %s are both records of %s; expected one of them", other.record.Dir(), r.Dir(), name)
		}
		runs, err := r.Runs(ctx)
		if err != nil {
			return nil, err
		}
		e.sets[name] = &set{record: r, manifest: r.Manifest(), runs: runs, busy: map[int64]float64{}}
	}
	return e, nil
}

// used is the share of the processors' time from which they are used up: what runs on them waits for them.
const used = 0.9

// load returns which share of the processors' time was used in a run: of the machine that emulates the hosts, if they are emulated,
// else of the host that used most.
func (s *set) load(run record.Run) (float64, error) {
	if v, ok := s.busy[run.ID]; ok {
		return v, nil
	}
	samples, err := s.record.HostSamples(run.ID)
	if err != nil {
		return 0, err
	}
	idle, seconds := map[string]float64{}, map[string]float64{}
	for _, w := range samples {
		if w.Metric == "cpu_idle" {
			idle[w.Source] += w.Value * w.Seconds
			seconds[w.Source] += w.Seconds
		}
	}
	busy := 0.0
	for source := range idle {
		if seconds[source] <= 0 {
			continue
		}
		share := 1 - idle[source]/seconds[source]
		if source == record.SourceHost {
			busy = share
			break
		}
		busy = max(busy, share)
	}
	s.busy[run.ID] = busy
	return busy, nil
}

// invalid are the checks that make a run worthless for a claim. The others make it less sure, which its interval shows.
var invalid = []string{check.InteractiveLaw, check.FlowClient, check.GeneratorSaturated, check.Misses, check.Errors}

// defect returns the first check of invalid that the run violates; "" if there is none.
func defect(run record.Run) string {
	for _, w := range run.Warnings {
		if slices.Contains(invalid, w.Code) {
			return w.Code
		}
	}
	return ""
}

// view is the evidence for one claim.
type view struct {
	*Evidence
	claim Claim
}

// Selection picks the runs of a record that have some levels.
type Selection struct {
	Record string            `yaml:"record"`
	Where  map[string]string `yaml:"where"`
}

// String names it for people.
func (s Selection) String() string {
	if len(s.Where) == 0 {
		return s.Record
	}
	return s.Record + " (" + record.Label(s.Where, slices.Sorted(maps.Keys(s.Where))) + ")"
}

// set returns the record of a name, or why it can't decide the claim.
func (e *view) set(name string) (s *set, why string) {
	s = e.sets[name]
	switch {
	case s == nil:
		return nil, "there is no record of " + name
	case e.claim.Machines && s.manifest.Testbed == "local":
		return nil, fmt.Sprintf("the record of %s was made on the testbed local, whose bandwidths are not those of the report's machines", name)
	case e.claim.Delay && s.immediate():
		return nil, fmt.Sprintf("in the record of %s packets travel for no time (this kernel can't delay them), and so workers hardly wait", name)
	}
	return s, ""
}

// immediate reports whether packets travel for no time between emulated machines.
func (s *set) immediate() bool {
	return len(s.manifest.Machines) > 0 && !slices.ContainsFunc(s.manifest.Machines, func(m record.Machine) bool { return m.Delay > 0 })
}

// runs returns the valid runs of a selection, or why there are none to decide with: every point of it needs one.
func (e *view) runs(s Selection) (runs []record.Run, why string) {
	set, why := e.set(s.Record)
	if why != "" {
		return nil, why
	}
	for _, p := range record.Points(set.runs) {
		if !s.has(p.Factors) {
			continue
		}
		var valid []record.Run
		var defects []string
		for _, run := range p.Runs {
			switch code := defect(run); {
			case run.State != record.Complete:
				defects = append(defects, check.RunFailed)
			case code != "":
				defects = append(defects, code)
			default:
				valid = append(valid, run)
			}
		}
		if len(valid) == 0 {
			slices.Sort(defects)
			return nil, fmt.Sprintf("%s has no valid run at %s (%s)", s.Record, record.Label(p.Factors, record.Varying(set.runs)), strings.Join(slices.Compact(defects), ", "))
		}
		runs = append(runs, valid...)
	}
	if len(runs) == 0 {
		return nil, "there are no runs of " + s.String()
	}
	return runs, ""
}

// has reports whether a run with these levels is selected.
func (s Selection) has(levels map[string]string) bool {
	for name, level := range s.Where {
		if levels[name] != level {
			return false
		}
	}
	return true
}

// exhausted says, if it is so, that some of the runs used up the processors they were made on.
func (e *view) exhausted(name string, runs []record.Run) string {
	set := e.sets[name]
	many, most := 0, 0.0
	for _, run := range runs {
		load, err := set.load(run)
		if err != nil {
			return err.Error()
		}
		if load >= used {
			many++
		}
		most = max(most, load)
	}
	if many == 0 {
		return ""
	}
	return fmt.Sprintf("the processors of the machine were in use for up to %.0f %% of the time (%d of %d runs of %s above %.0f %%)", 100*most, many, len(runs), name, 100*used)
}

// judge turns what a rule found into a verdict: nothing is decided by runs for which the processors did not do.
func judge(holds bool, text string, exhausted ...string) (Verdict, string) {
	for _, why := range exhausted {
		if why != "" {
			return NotComparable, text + "; " + why
		}
	}
	if holds {
		return Confirmed, text
	}
	return NotConfirmed, text
}

// line is the points of a selection along one factor, everything else being equal, by growing level.
type line struct {
	name   string // the levels of what else varies; "" if nothing does
	levels []string
	points []record.Point
}

// lines arranges runs along a factor.
func lines(runs []record.Run, over string) []line {
	var all []line
	others := slices.DeleteFunc(record.Varying(runs), func(name string) bool { return same(name, over) })
	for _, p := range record.Points(runs) {
		name := record.Label(p.Factors, others)
		at := slices.IndexFunc(all, func(l line) bool { return l.name == name })
		if at < 0 {
			at = len(all)
			all = append(all, line{name: name})
		}
		all[at].points = append(all[at].points, p)
	}
	for i := range all {
		slices.SortStableFunc(all[i].points, func(a, b record.Point) int { return record.CompareLevels(a.Factors[over], b.Factors[over]) })
		for _, p := range all[i].points {
			all[i].levels = append(all[i].levels, p.Factors[over])
		}
	}
	slices.SortFunc(all, func(a, b line) int { return strings.Compare(a.name, b.name) })
	return all
}

// same reports whether a factor is, or goes with, another: connections are the clients.
func same(name, other string) bool {
	return name == other || name == "connections" && other == "clients" || name == "clients" && other == "connections"
}

// moments returns what a metric came to at a point.
func moments(p record.Point, metric string) (sample.Moments, bool) {
	source, name, _ := strings.Cut(metric, ".")
	values := p.Values(source, name)
	return sample.Of(values), len(values) == len(p.Runs)
}

// show returns how values of a metric are written.
func show(metric string) func(float64) string {
	_, name, _ := strings.Cut(metric, ".")
	m, _ := record.Describe(name)
	switch m.Unit {
	case record.OperationsPerSecond:
		return func(v float64) string { return fmt.Sprintf("%.0f ops/s", v) }
	case record.Seconds:
		return func(v float64) string { return fmt.Sprintf("%.3g ms", 1e3*v) }
	default:
		return func(v float64) string { return fmt.Sprintf("%.4g", v) }
	}
}
