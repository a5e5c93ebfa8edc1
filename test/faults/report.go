package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Report holds the results of scenarios.
type Report struct {
	Command string    `json:"command"`
	Given   []string  `json:"given,omitempty"` // options of every mcmw instance, each as name=value
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended"`
	Results []*Result `json:"results"`
}

// Broken returns the number of results with a broken promise or an unexpected error.
func (r *Report) Broken() int {
	n := 0
	for _, result := range r.Results {
		if len(result.Broken)+len(result.Unexpected) > 0 {
			n++
		}
	}
	return n
}

// line describes the result in one line, and each violation in a further line.
func (r *Result) line() string {
	if r.Skipped != "" {
		return "skipped: " + r.Skipped
	}
	text := fmt.Sprintf("%d reads, %d failed; %d writes, %d failed; slowest %s; detected after %s, recovered after "+
		"%s; %d wrong, %d stale, %d lost",
		r.Reads.Sent, r.Reads.Failed, r.Writes.Sent, r.Writes.Failed,
		milliseconds(max(r.Reads.Slowest, r.Writes.Slowest)),
		r.detected(), milliseconds(r.Recovered), r.Wrong, r.Stale, r.Reads.Lost+r.Writes.Lost)
	if r.Withdrawn > 0 {
		text += fmt.Sprintf("; %d reads older than a write that was not acknowledged when mcmw was killed", r.Withdrawn)
	}
	if r.FromMemory != nil {
		text += fmt.Sprintf("; %d reads answered from memory", *r.FromMemory)
	}
	if r.Followed != nil {
		text += fmt.Sprintf("; nothing owed to the following pool %s after the load", milliseconds(*r.Followed))
	}
	if r.Rates != nil {
		text += fmt.Sprintf("; %.0f/s served before the fault, %.0f/s from %v after its beginning", r.Rates[0],
			r.Rates[1], goesOnAfter)
	}
	if r.Kept != nil {
		text += fmt.Sprintf("; %d of %d kept keys found", r.Kept.Found, r.Kept.Of)
	}
	if s := r.Shared; s != nil {
		text += fmt.Sprintf("\n  shared keys: %d requests, %d failed; %d wrong, %d stale; %d of %d differ", s.Requests,
			s.Failed, s.Wrong, s.Stale, s.Differing, s.Compared)
	}
	for _, broken := range r.Broken {
		text += "\n  BROKEN: " + broken
	}
	for _, unexpected := range r.Unexpected {
		text += "\n  UNEXPECTED: " + unexpected
	}
	return text
}

func (r *Result) detected() string {
	if r.Detected == nil {
		return "-"
	}
	return milliseconds(*r.Detected)
}

func milliseconds(d time.Duration) string { return fmt.Sprintf("%.0f ms", d.Seconds()*1e3) }

// WriteMarkdown writes the tables.
func (r *Report) WriteMarkdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Measured on %s by\n\n    %s\n\n", r.Started.UTC().Format("2 January 2006, 15:04 MST"), r.Command)
	if len(r.Given) > 0 {
		fmt.Fprintf(&b, "Every mcmw instance also has `%s`.\n\n", strings.Join(r.Given, "`, `"))
	}
	writeTable(&b, "", r.rows(), "scenario", "what happens; mcmw serve with", "reads, failed", "writes, failed",
		"slowest answer", "detected after",
		"recovered after", "wrong", "stale, of these after recovery", "lost", "goroutines", "heap MiB")
	for _, s := range r.Results {
		if s.Withdrawn > 0 {
			fmt.Fprintf(&b,
				"\n`%s`: %d reads returned a value older than one read before, which was not acknowledged when mcmw "+
					"was killed ([until a sweep](../replication.md#what-a-restart-must-not-forget)).\n",
				s.Scenario, s.Withdrawn)
		}
	}
	writeTable(&b, "\nGets that mcmw answered from memory since its last start:\n\n", r.servedRows(), "scenario",
		"gets")
	writeTable(&b, "\nThe most frequent errors of failed requests, by scenario:\n\n", r.errorRows(), "scenario",
		"times", "SERVER_ERROR")
	writeTable(&b,
		"\nRequests for other servers continue: successes before and during the fault, and the p99 of the response "+
			"times of requests due then,\n"+
			"for connections that use only keys of the failing server and for those that use none.\n\n", r.groupRows(),
		"scenario", "keys of the server", "before: successes/s", "p99 ms", "during: successes/s", "p99 ms",
		"successes during / before", "p99 during / before")
	for _, s := range r.Results {
		for _, broken := range s.Broken {
			fmt.Fprintf(&b, "\nBROKEN in %s: %s\n", s.Scenario, broken)
		}
		for _, unexpected := range s.Unexpected {
			fmt.Fprintf(&b, "\nUNEXPECTED in %s: %s\n", s.Scenario, unexpected)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *Report) rows() (rows [][]string) {
	for _, s := range r.Results {
		row := []string{s.Scenario, s.Title + "; `" + strings.Join(s.Args, " ") + "`"}
		if s.Skipped != "" {
			rows = append(rows, append(row, "skipped: "+s.Skipped, "", "", "", "", "", "", "", "", ""))
			continue
		}
		rows = append(rows, append(row,
			fmt.Sprintf("%d, %d", s.Reads.Sent, s.Reads.Failed), fmt.Sprintf("%d, %d", s.Writes.Sent, s.Writes.Failed),
			milliseconds(max(s.Reads.Slowest, s.Writes.Slowest)), s.detected(), milliseconds(s.Recovered),
			fmt.Sprint(s.Wrong), fmt.Sprintf("%d, %d", s.Stale, s.StaleAfterRecovery),
			fmt.Sprint(s.Reads.Lost+s.Writes.Lost),
			fmt.Sprintf("%d, %d", s.Before.Goroutines, s.After.Goroutines),
			fmt.Sprintf("%.1f, %.1f", mebibytes(s.Before.Heap), mebibytes(s.After.Heap))))
	}
	return rows
}

func (r *Report) servedRows() (rows [][]string) {
	for _, s := range r.Results {
		if s.FromMemory != nil {
			rows = append(rows, []string{s.Scenario, fmt.Sprint(*s.FromMemory)})
		}
	}
	return rows
}

// mostErrors is how many errors are listed per scenario.
const mostErrors = 4

func (r *Report) errorRows() (rows [][]string) {
	for _, s := range r.Results {
		for _, e := range s.Errors[:min(mostErrors, len(s.Errors))] {
			rows = append(rows, []string{s.Scenario, fmt.Sprint(e.Count), "`" + e.Text + "`"})
		}
	}
	return rows
}

func (r *Report) groupRows() (rows [][]string) {
	for _, s := range r.Results {
		for _, g := range s.Groups {
			rows = append(rows, []string{
				s.Scenario, g.Name, fmt.Sprintf("%.0f", g.Before.PerSecond),
				fmt.Sprintf("%.2f", g.Before.P99.Seconds()*1e3),
				fmt.Sprintf("%.0f", g.During.PerSecond), fmt.Sprintf("%.2f", g.During.P99.Seconds()*1e3),
				fmt.Sprintf("%.2f", g.During.PerSecond/g.Before.PerSecond),
				fmt.Sprintf("%.1f", float64(g.During.P99)/float64(g.Before.P99)),
			})
		}
	}
	return rows
}

func mebibytes(n int64) float64 { return float64(n) / (1 << 20) }

// writeTable writes an introduction and a table, or nothing if the table has no rows.
func writeTable(w io.Writer, introduction string, rows [][]string, columns ...string) {
	if len(rows) == 0 {
		return
	}
	_, _ = io.WriteString(w, introduction)
	for _, row := range append([][]string{columns, slices.Repeat([]string{"---"}, len(columns))}, rows...) {
		fmt.Fprintf(w, "| %s |\n", strings.Join(row, " | "))
	}
}
