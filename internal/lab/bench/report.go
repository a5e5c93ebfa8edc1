package bench

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// WriteText writes the report for a terminal.
func (r *Report) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", r.setting())
	for _, version := range r.Versions {
		fmt.Fprintf(&b, "%s\n", version)
	}
	for _, s := range r.Workloads {
		fmt.Fprintf(&b, "\n%s (%s)\n", s.Workload.Title, s.Workload.Name)
		table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
		writeRow(table, "\t%s\t\n", "\t", medianHeader)
		for _, system := range s.Systems {
			writeRow(table, "\t%s\t\n", "\t", system.cells())
		}
		if err := table.Flush(); err != nil {
			return err
		}
		for _, ratio := range s.Ratios {
			fmt.Fprintf(&b, "  %s / %s: throughput %s, CPU per request %s, p50 %s, p99 %s\n", ratio.System, ratio.To,
				ratio.Throughput, ratio.CPUPerRequest, ratio.P50, ratio.P99)
			if ratio.Verdict != nil {
				fmt.Fprintf(&b, "  goal: %s: %s\n", ratio.Verdict.Goal, ratio.Verdict)
			}
		}
	}
	for _, c := range r.Curves {
		fmt.Fprintf(&b, "\n%s (%s)\n", c.Curve.Title, c.Curve.Name)
		table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
		writeRow(table, "\t%s\t\n", "\t", c.header())
		for _, row := range c.rows() {
			writeRow(table, "\t%s\t\n", "\t", row)
		}
		if err := table.Flush(); err != nil {
			return err
		}
		for _, sentence := range c.sentences() {
			fmt.Fprintf(&b, "  %s\n", sentence)
		}
	}
	for i, warning := range r.Warnings() {
		if i == 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "warning: %s\n", warning)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteMarkdown writes the report as a page that stands by itself. figures is the directory that Figures are in, as
// seen from the page; "" leaves them out.
func (r *Report) WriteMarkdown(w io.Writer, figures string) error {
	var b strings.Builder
	title, what := "Performance", "mcmw beside twemproxy (Debian's nutcracker), both in front of the same memcached servers with one thread each, on one\nmachine with the load generator."
	if len(r.Workloads) == 0 {
		title, what = "How the cost grows", "What mcmw does and costs, as what it serves grows: in front of memcached servers with one thread each, on one machine with the\nload generator."
	}
	fmt.Fprintf(&b, `# %s

%s This page is written by

    %s

and holds what was measured on %s (%s).

- Machine: %s, %d cores, %s of memory, %s.
- Load generator: one process of its own, %d thread(s), built with %s; its CPU is shown below.
`, title, what, r.Command, r.Started.UTC().Format("2 January 2006, 15:04 MST"), r.extent(), r.Machine.CPU, r.Machine.Cores,
		r.Machine.Memory, r.Machine.Kernel, r.Threads, r.Machine.Go)
	for _, version := range r.Versions {
		fmt.Fprintf(&b, "- %s\n", version)
	}
	b.WriteString(`
Everything shares the machine's cores: absolute figures say little about another machine, and only ratios of figures of
one round are compared. Systems take turns within a round, each as a fresh process, with every key stored through it
before. In brackets, and as bars in the figures: the least and the greatest of a round.
`)
	if len(r.Workloads) > 0 {
		r.writeWorkloads(&b, figures)
	}
	for _, c := range r.Curves {
		fmt.Fprintf(&b, "\n## %s: %s\n\n", c.Curve.Name, c.Curve.Title)
		if figures != "" {
			fmt.Fprintf(&b, "![Throughput, CPU per request and 99th percentile over %s](%s/%s.svg)\n\n", c.Curve.X, figures, c.Curve.Name)
		}
		for _, sentence := range c.sentences() {
			fmt.Fprintf(&b, "- %s\n", sentence)
		}
		b.WriteString("\n")
		writeMarkdownHead(&b, c.header())
		for _, row := range c.rows() {
			writeRow(&b, "| %s |\n", " | ", row)
		}
	}
	if warnings := r.Warnings(); len(warnings) > 0 {
		b.WriteString("\n## Warnings\n\n")
		for _, warning := range warnings {
			fmt.Fprintf(&b, "- %s\n", warning)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeWorkloads writes what was measured under the workloads.
func (r *Report) writeWorkloads(b *strings.Builder, figures string) {
	b.WriteString("\n## Ratios\n\nAbove 1, more throughput; below 1, less CPU per request and a shorter response time.\n\n")
	writeMarkdownHead(b, []string{"workload", "", "throughput", "CPU per request", "p50", "p99", "goal", "verdict"})
	for _, s := range r.Workloads {
		for _, ratio := range s.Ratios {
			writeRow(b, "| %s |\n", " | ", []string{
				s.Workload.Title, ratio.System + " / " + ratio.To, ratio.Throughput.String(), ratio.CPUPerRequest.String(),
				ratio.P50.String(), ratio.P99.String(), goalText(ratio.Verdict), ratio.Verdict.String(),
			})
		}
	}
	if figures != "" {
		fmt.Fprintf(b, "\n![CPU per request under each workload](%s/%s.svg)\n", figures, cpuFigureName)
	}
	b.WriteString("\n## Medians\n\n" +
		"CPU is user and system time divided by requests: that of the system itself, of the servers together, and of the load\n" +
		"generator. The generator is said to have run, or to have run or waited for a core, for a share of the time: from\n" +
		"95 % on it, or the machine, was the limit. \"direct\" is the generator connected to the servers with nothing in between.\n\n")
	writeMarkdownHead(b, append([]string{"workload"}, medianHeader...))
	for _, s := range r.Workloads {
		for _, system := range s.Systems {
			writeRow(b, "| %s |\n", " | ", append([]string{s.Workload.Title}, system.cells()...))
		}
	}
}

// header names the columns of the curve's table.
func (s CurveSummary) header() []string {
	return []string{s.Curve.X, "system", "ops/s", "CPU us", "p50 ms", "p99 ms", "memory MiB", "generator the limit"}
}

// rows returns the curve's table, ordered by the quantity.
func (s CurveSummary) rows() [][]string {
	var rows [][]string
	for i := range s.longest() {
		for _, line := range s.Lines {
			if i >= len(line.Points) {
				continue
			}
			p := line.Points[i]
			memory := "-"
			if p.PeakMemory.Median > 0 {
				memory = fmt.Sprintf("%.1f", p.PeakMemory.Median/(1<<20))
			}
			rows = append(rows, []string{
				s.Curve.at(p.X), line.System, fmt.Sprintf("%.0f (%.0f to %.0f)", p.OpsPerSec.Median, p.OpsPerSec.Min, p.OpsPerSec.Max),
				fmt.Sprintf("%.2f (%.2f to %.2f)", 1e6*p.CPUPerRequest.Median, 1e6*p.CPUPerRequest.Min, 1e6*p.CPUPerRequest.Max),
				fmt.Sprintf("%.3f", 1e3*p.P50.Median), fmt.Sprintf("%.3f (%.3f to %.3f)", 1e3*p.P99.Median, 1e3*p.P99.Min, 1e3*p.P99.Max),
				memory, fmt.Sprintf("%d of %d", p.GeneratorLimited, p.Rounds),
			})
		}
	}
	return rows
}

// longest returns the number of points of the line that has most.
func (s CurveSummary) longest() int {
	n := 0
	for _, line := range s.Lines {
		n = max(n, len(line.Points))
	}
	return n
}

// sentences says of each line where its throughput is highest, and how its cost grows.
func (s CurveSummary) sentences() []string {
	var sentences []string
	for _, line := range s.Lines {
		best := slices.MaxFunc(line.Points, func(a, b CurvePoint) int { return cmp.Compare(a.OpsPerSec.Median, b.OpsPerSec.Median) })
		knee := line.Points[slices.IndexFunc(line.Points, func(p CurvePoint) bool { return p.OpsPerSec.Median >= kneeShare*best.OpsPerSec.Median })]
		text := fmt.Sprintf("%s: throughput is highest at %s, %.0f ops/s, and within %.0f %% of that from %s on", line.System,
			s.Curve.at(best.X), best.OpsPerSec.Median, 100*(1-kneeShare), s.Curve.at(knee.X))
		if line.Growth != "" {
			text += "; CPU per request is " + line.Growth
		}
		sentences = append(sentences, text+".")
	}
	return sentences
}

// kneeShare is the share of the highest throughput from which on a curve has reached its knee.
const kneeShare = 0.9

func goalText(v *Verdict) string {
	if v == nil {
		return "-"
	}
	return v.Goal.String()
}

// setting says where and how the measurements were made.
func (r *Report) setting() string {
	return fmt.Sprintf("%s, %d cores, %s, %s; %s", r.Machine.CPU, r.Machine.Cores, r.Machine.Memory, r.Machine.Kernel, r.extent())
}

// extent says how much was measured.
func (r *Report) extent() string {
	return fmt.Sprintf("%d rounds of %v after a warm-up of %v", r.Rounds, r.Duration, r.WarmUp)
}

// String returns the version, with the system's name where the program's own doesn't tell it.
func (v Version) String() string {
	text := v.Text
	if !strings.HasPrefix(text, v.Name+" ") {
		text = v.Name + ": " + text
	}
	if len(v.Args) > 0 {
		text += ", started with " + strings.Join(v.Args, " ")
	}
	return text
}

var medianHeader = []string{
	"system", "ops/s", "CPU us", "p50 ms", "p99 ms", "p99.9 ms", "memory MiB", "servers' CPU us", "generator's CPU us",
	"generator ran", "or waited", "other cores",
}

// cells returns a row of the table of medians, as medianHeader names them.
func (s SystemSummary) cells() []string {
	own := func(format string, value float64) string {
		if s.PeakMemory == 0 {
			return "-"
		}
		return fmt.Sprintf(format, value)
	}
	return []string{
		s.System,
		fmt.Sprintf("%.0f", s.OpsPerSec),
		own("%.2f", micros(s.CPUPerRequest)),
		fmt.Sprintf("%.3f", micros(s.P50)/1000),
		fmt.Sprintf("%.3f", micros(s.P99)/1000),
		fmt.Sprintf("%.3f", micros(s.P999)/1000),
		own("%.1f", float64(s.PeakMemory)/(1<<20)),
		fmt.Sprintf("%.2f", micros(s.ServerCPUPerRequest)),
		fmt.Sprintf("%.2f", micros(s.GeneratorCPUPerRequest)),
		fmt.Sprintf("%.0f %%", 100*s.GeneratorBusy),
		fmt.Sprintf("%.0f %%", 100*s.GeneratorBusyOrWaiting),
		fmt.Sprintf("%.2f", s.OtherCores),
	}
}

// String returns "median (least to greatest)".
func (s Spread) String() string {
	if s.Rounds == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f (%.2f to %.2f)", s.Median, s.Min, s.Max)
}

const (
	// fewRounds is the number of rounds below which a median says little.
	fewRounds = 5
	// quietCores is how many cores may be busy with other things without a warning.
	quietCores = 0.1
)

// Warnings says what speaks against relying on the figures.
func (r *Report) Warnings() []string {
	var warnings []string
	warn := func(format string, args ...any) { warnings = append(warnings, fmt.Sprintf(format, args...)) }
	if r.Problem != "" {
		warn("the benchmark ended before its time: %s", r.Problem)
	}
	if r.Rounds < fewRounds {
		warn("rounds: %d; medians of less than %d say little", r.Rounds, fewRounds)
	}
	var noisy []string
	var worst float64
	for _, w := range r.Workloads {
		for _, s := range w.Systems {
			at := fmt.Sprintf("%s, %s", w.Workload.Name, s.System)
			if s.Failures > 0 {
				i := slices.IndexFunc(r.Measurements, func(m Measurement) bool {
					return m.Workload == w.Workload.Name && m.System == s.System && m.FirstFailure != ""
				})
				warn("%s: %d requests were answered by an error, the first by %q", at, s.Failures, r.Measurements[i].FirstFailure)
			}
			if s.Misses > 0 {
				warn("%s: %d keys were not found though all were stored", at, s.Misses)
			}
			if s.GeneratorLimited > 0 {
				warn("%s: the load generator was the limit in %d of %d rounds; more threads would make more load", at, s.GeneratorLimited, s.Rounds)
			}
			if s.OtherCores > quietCores {
				noisy = append(noisy, at)
				worst = max(worst, s.OtherCores)
			}
		}
	}
	if len(noisy) > 0 {
		warn("the machine was not quiet: other programs kept up to %.2f cores busy (%s)", worst, strings.Join(noisy, "; "))
	}
	return warnings
}

// writeRow writes cells in a row.
func writeRow(w io.Writer, format, separator string, cells []string) {
	fmt.Fprintf(w, format, strings.Join(cells, separator))
}

// writeMarkdownHead writes the head of a table.
func writeMarkdownHead(w io.Writer, names []string) {
	writeRow(w, "| %s |\n", " | ", names)
	writeRow(w, "|%s|\n", "|", slices.Repeat([]string{"---"}, len(names)))
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
