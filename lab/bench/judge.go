package bench

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"mcmw/lab/check"
	"mcmw/lab/experiment"
	"mcmw/lab/frame"
	"mcmw/lab/record"
	"mcmw/lab/sample"
	"mcmw/lab/table"
)

// Verdict says how the speed of a system compares with that of the first.
type Verdict string

// The verdicts. Unknown: the interval of the ratio contains 1, or there are fewer than two pairs.
const (
	Faster  Verdict = "faster"
	Slower  Verdict = "slower"
	Unknown Verdict = "can't be told"
)

// Result has the systems under each load.
type Result struct {
	Systems []string `json:"systems"`
	// Confidence is that with which all intervals of ratios hold together: each has the confidence 1 - (1 -
	// Confidence)/k, k their number (Bonferroni). So equal systems get another verdict than Unknown with a probability
	// of at most 1 - Confidence.
	Confidence float64 `json:"confidence"`
	// OneProcessor: everything ran on one processor. Speed is then the number of requests per second of processor time
	// that all programs of the run used: the throughput, without the time that programs outside it took. Otherwise it
	// is the throughput.
	OneProcessor bool  `json:"one_processor"`
	Rows         []Row `json:"rows"`
	// Disturbed is the number of runs during which other programs used the processors noticeably. On one processor they
	// don't count.
	Disturbed int `json:"disturbed"`
}

// Row is one system under one load. Ratio is that of its speed to the first system's, over pairs of runs of one
// repetition; Verdict is "" for the first.
type Row struct {
	Load       string          `json:"load"`
	System     string          `json:"system"`
	Throughput sample.Estimate `json:"throughput"`
	Ratio      sample.Estimate `json:"ratio"`
	Verdict    Verdict         `json:"verdict,omitempty"`
	CPU        sample.Estimate `json:"cpu_per_request"` // of the system, seconds
	P99        sample.Estimate `json:"response_time_p99"`
}

// own is the share of a processor that the programs of an undisturbed run use at least. Of 35 and of 60 pairs that were
// measured beside builds the standard error of the ratio was 1.4 % with this share, 2.2 % and 1.5 % with all pairs, and
// 1.7 % and 1.6 % with 0.9.
const own = 0.7

// speed returns the speed of a system in a run, unless it was disturbed and the speed is therefore not known.
func (r *Result) speed(run record.Run) (float64, bool) {
	throughput, ok := run.Value(record.SourceClient, "throughput")
	if !r.OneProcessor {
		return throughput, ok
	}
	cost, known := costOf(run)
	return 1 / cost, ok && known && throughput*cost >= own
}

// costOf returns the processor time of a request in all programs of a run, seconds.
func costOf(run record.Run) (cost float64, ok bool) {
	ok = true
	for _, source := range []string{record.SourceClient, record.SourceMiddleware, record.SourceServers} {
		of, known := run.Value(source, "cpu_per_request")
		cost += of
		ok = ok && (known || source == record.SourceMiddleware) // direct has none
	}
	return cost, ok
}

// Judge compares the systems with the first, under each load, from runs with the factors case and system.
func Judge(runs []record.Run, loads, systems []string, confidence float64) *Result {
	r := &Result{Systems: systems, Confidence: confidence, OneProcessor: true}
	for _, run := range runs {
		for _, role := range []string{experiment.ServerCPUs, experiment.MiddlewareCPUs, experiment.LoadCPUs} {
			cpus := experiment.Values(run.Factors).Processors(role)
			r.OneProcessor = r.OneProcessor && len(cpus) == 1 && run.Factors[role] == runs[0].Factors[role] &&
				run.Factors[role] == run.Factors[experiment.LoadCPUs]
		}
	}
	each := 1 - (1-confidence)/float64(max(len(loads)*(len(systems)-1), 1))
	points := frame.By(runs, []string{experiment.Case, experiment.System}, confidence).Points
	for _, load := range loads {
		var first frame.Point
		for i, system := range systems {
			levels := map[string]string{experiment.Case: load, experiment.System: system}
			at := slices.IndexFunc(points, func(p frame.Point) bool { return maps.Equal(p.Levels, levels) })
			if at < 0 {
				continue
			}
			p := points[at]
			row := Row{
				Load: load, System: system, Throughput: p.Estimate(record.SourceClient, "throughput"),
				CPU: p.Estimate(record.SourceMiddleware, "cpu_per_request"),
				P99: p.Estimate(record.SourceClient, "response_time_p99"),
			}
			if i == 0 {
				first = p
			} else {
				row.Ratio = p.PairedRatio(first, r.speed, each)
				row.Verdict = verdict(row.Ratio)
			}
			r.Rows = append(r.Rows, row)
		}
	}
	for _, run := range runs {
		disturbed := slices.ContainsFunc(run.Warnings, func(w record.Warning) bool { return w.Code == check.OtherLoad })
		if _, known := r.speed(run); r.OneProcessor {
			disturbed = !known
		}
		if disturbed && run.State == record.Complete {
			r.Disturbed++
		}
	}
	return r
}

func verdict(ratio sample.Estimate) Verdict {
	switch {
	case !ratio.Known():
	case ratio.Low > 1:
		return Faster
	case ratio.High < 1:
		return Slower
	}
	return Unknown
}

// Sentence says which systems are faster and slower than the first, and under how many loads that can't be told.
func (r *Result) Sentence() string {
	var sentences []string
	for _, system := range r.Systems[1:] {
		var parts []string
		for _, verdict := range []Verdict{Slower, Faster, Unknown} {
			var loads []string
			for _, row := range r.Rows {
				if row.System == system && row.Verdict == verdict {
					loads = append(loads, row.Load)
				}
			}
			if loads != nil {
				parts = append(parts, fmt.Sprintf("%s under %s", verdict, strings.Join(loads, ", ")))
			}
		}
		sentences = append(sentences, fmt.Sprintf("%s beside %s: %s.", system, r.Systems[0], strings.Join(parts, "; ")))
	}
	return strings.Join(sentences, " ")
}

// AnySlower reports whether a system is slower than the first under a load.
func (r *Result) AnySlower() bool {
	return slices.ContainsFunc(r.Rows, func(row Row) bool { return row.Verdict == Slower })
}

// Table returns a row for each system under each load.
func (r *Result) Table() table.Table {
	t := table.Table{
		Columns: []string{"load", "system", "throughput", "ratio to " + r.Systems[0], "verdict", "CPU/request", "p99"},
		Left:    []int{1, 4},
		Notes: []string{
			"Ratio: of the throughput.",
			fmt.Sprintf("[ ]: %.0f %% confidence interval, of all ratios together; they are geometric means over "+
				"pairs of runs. ±: of each mean alone. CPU: processor time of the system.", 100*r.Confidence),
		},
	}
	if r.OneProcessor {
		t.Notes[0] = "Everything ran on one processor. Ratio: of requests per second of processor time that load, " +
			"system and servers used, which is the throughput without what other programs took."
	}
	if r.Disturbed > 0 {
		note := fmt.Sprintf("⚠ Other programs used the processors during %d runs", r.Disturbed)
		if r.OneProcessor {
			note += fmt.Sprintf(", for more than %.0f %% of the time; in ratios these don't count", 100*(1-own))
		}
		t.Notes = append(t.Notes, note+".")
	}
	for _, row := range r.Rows {
		metric := func(name string, e sample.Estimate) string {
			if !e.OK() {
				return "–"
			}
			return e.Format(record.Format(name, e.Mean), " ± %.1f %%")
		}
		ratio := "1"
		if row.System != r.Systems[0] {
			ratio = row.Ratio.RatioText()
		}
		t.Rows = append(t.Rows, []string{
			row.Load, row.System, metric("throughput", row.Throughput), ratio, string(row.Verdict),
			metric("cpu_per_request", row.CPU), metric("response_time_p99", row.P99),
		})
	}
	return t
}

// WriteBenchstat writes a line for each complete run in the format that benchstat reads: benchstat -col /system FILE.
func WriteBenchstat(w io.Writer, runs []record.Run, m record.Manifest) error {
	var b strings.Builder
	fmt.Fprintf(&b, "goos: linux\ncpu: %s\nUnit ops/s better=higher\n", m.Host.CPU)
	for _, run := range runs {
		if run.State != record.Complete {
			continue
		}
		rate, _ := run.Value(record.SourceClient, "throughput")
		// The last part of a name would be read as a number of processors.
		fmt.Fprintf(&b, "BenchmarkRequest/load=%s/system=%s-1\t%.0f\t%.1f ns/op\t%.1f ops/s",
			run.Factors[experiment.Case], run.Factors[experiment.System],
			rate*run.Seconds, 1e9/rate, rate)
		for _, v := range []struct{ source, metric, unit string }{
			{record.SourceMiddleware, "cpu_per_request", "cpu-ns/op"},
			{record.SourceClient, "response_time_p50", "p50-ns"},
			{record.SourceClient, "response_time_p99", "p99-ns"},
		} {
			if x, ok := run.Value(v.source, v.metric); ok {
				fmt.Fprintf(&b, "\t%.1f %s", 1e9*x, v.unit)
			}
		}
		if cost, ok := costOf(run); ok {
			fmt.Fprintf(&b, "\t%.1f all-cpu-ns/op", 1e9*cost)
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}
