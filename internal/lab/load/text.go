package load

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// WriteText writes the result for people: what ran, a table by command, and what the generator itself consumed.
func (r *Result) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d connections, %d threads, pipeline %d, SET:GET %d:%d, %d keys per GET, values of %d bytes, %d keys, %.3f s%s\n\n",
		strings.Join(r.Targets, ", "), r.Connections, r.Threads, r.Pipeline, r.Sets, r.Gets, r.KeysPerGet, r.ValueSize, r.Keys,
		r.Elapsed.Seconds(), map[bool]string{true: " (interrupted)"}[r.Interrupted])
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "\trequests\tops/s\thits\tmisses\terrors\tmean ms\tp50 ms\tp99 ms\tp99.9 ms\tmax ms\t")
	row := func(name string, c CommandResult) {
		fmt.Fprintf(table, "%s\t%d\t%.0f\t%d\t%d\t%d\t%s\t%s\t%s\t%s\t%s\t\n", name, c.Requests, c.OpsPerSec, c.Hits, c.Misses, c.Failures,
			millis(c.Latency.Mean), millis(c.Latency.P50), millis(c.Latency.P99), millis(c.Latency.P999), millis(c.Latency.Max))
	}
	for c := range numCommands {
		if of, sent := r.Commands[c.String()]; sent {
			row(c.String(), of)
		}
	}
	row("total", r.Total)
	if err := table.Flush(); err != nil {
		return err
	}
	if r.FirstFailure != "" {
		fmt.Fprintf(&b, "\nfirst error: %s\n", r.FirstFailure)
	}
	fmt.Fprintf(&b, "\ngenerator: %s\n", r.Generator)
	_, err := io.WriteString(w, b.String())
	return err
}

// String says in a line what the generator consumed and whether it was the limit.
func (u Usage) String() string {
	verdict := map[Limit]string{
		LimitNone:      "it was not the limit",
		LimitGenerator: "IT WAS THE LIMIT: more threads would make more load",
		LimitMachine:   "IT WAS HELD BACK: it waited for cores that others used",
	}[u.Limit]
	return fmt.Sprintf("%.2f s CPU (%.2f s user, %.2f s system), its threads ran %.0f %% of the time, or %.0f %% with waiting for a core: %s",
		u.CPU().Seconds(), u.User.Seconds(), u.System.Seconds(), 100*u.Busy, 100*u.BusyOrWaiting, verdict)
}

// millis formats a duration in milliseconds.
func millis(d time.Duration) string { return fmt.Sprintf("%.3f", float64(d)/float64(time.Millisecond)) }
