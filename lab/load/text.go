package load

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"mcmw/lab/table"
)

// WriteText writes the result as text: the load, a table by command, and the generator's own resource usage.
func (r *Result) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d connections, %d threads, pipeline %d, %s, %d keys, %.3f s%s\n\n",
		strings.Join(r.Targets, ", "), r.Connections,
		r.Threads, r.Pipeline, r.workload(), r.Keys, r.Elapsed.Seconds(),
		map[bool]string{true: " (interrupted)"}[r.Interrupted])
	t := table.Table{Columns: []string{
		"", "requests", "ops/s", "hits", "misses", "errors", "mean ms", "p50 ms",
		"p99 ms", "p99.9 ms", "max ms",
	}}
	times := func(l *Latency) []string {
		return []string{millis(l.Mean), millis(l.P50), millis(l.P99), millis(l.P999), millis(l.Max)}
	}
	row := func(name string, c CommandResult) {
		t.Rows = append(t.Rows, append([]string{
			name, fmt.Sprint(c.Requests), fmt.Sprintf("%.0f", c.OpsPerSec), fmt.Sprint(c.Hits), fmt.Sprint(c.Misses),
			fmt.Sprint(c.Failures),
		}, times(&c.Latency)...))
	}
	for c := range numCommands {
		if result, sent := r.Commands[c.String()]; sent {
			row(c.String(), result)
		}
	}
	row("total", r.Total)
	if service := r.Total.Service; service != nil {
		t.Rows = append(t.Rows, append([]string{"service time", "", "", "", "", ""}, times(service)...))
	}
	if err := t.Lines(&b); err != nil {
		return err
	}
	if r.FirstFailure != "" {
		fmt.Fprintf(&b, "\nfirst error: %s\n", r.FirstFailure)
	}
	if r.ReconnectAfter > 0 {
		fmt.Fprintf(&b, "\nreconnects: %d, %s ms on average, not included in response times\n", r.Reconnects,
			millis(r.ConnectMean))
	}
	if r.Pace != nil {
		fmt.Fprintf(&b, "\nschedule: %s\n", r.Pace)
	}
	fmt.Fprintf(&b, "\ngenerator: %s\n", r.Generator)
	_, err := io.WriteString(w, b.String())
	return err
}

// workload describes the requests.
func (r *Result) workload() string {
	names, ratio, several := "SET:GET", fmt.Sprintf("%d:%d", r.Sets, r.Gets), "GET"
	if r.MultiGets > 0 {
		names, ratio, several = names+":MULTIGET", fmt.Sprintf("%s:%d", ratio, r.MultiGets), "MULTIGET"
	}
	text := fmt.Sprintf("%s %s, %d keys per %s, values of %s bytes", names, ratio, r.KeysPerGet, several,
		cmp.Or(r.ValueSizes, strconv.Itoa(r.ValueSize)))
	if r.CacheAside {
		text += ", missed keys are stored"
	}
	if r.TLS {
		text += ", TLS"
	}
	switch {
	case r.Arrivals == "recorded":
		return "open loop, requests of a trace, " + text
	case r.Rate != "":
		return "open loop, " + r.Rate + " requests/s, " + r.Arrivals + " arrivals, " + text
	case r.ThinkTime > 0:
		return fmt.Sprintf("think time %v, %s", r.ThinkTime, text)
	}
	return text
}

// String describes in one line how well the schedule was kept.
func (p *PaceResult) String() string {
	text := fmt.Sprintf("requests were sent %s ms after they were due on average (p99 %s, max %s ms), of which %s ms "+
		"(p99 %s, max %s ms) were the generator's own",
		millis(p.Slip.Mean), millis(p.Slip.P99), millis(p.Slip.Max), millis(p.OwnSlip.Mean), millis(p.OwnSlip.P99),
		millis(p.OwnSlip.Max))
	if p.SentTogether > 0 {
		text += fmt.Sprintf("; %.0f %% were sent within 0.1 ms of the previous one, where Poisson arrivals at this "+
			"rate would be %.0f %%", 100*p.SentTogether, 100*p.DueTogether)
	}
	if p.Unsent > 0 {
		text += fmt.Sprintf("; %d WERE DUE BUT COULD NOT BE SENT: the target did not keep up, and the response times "+
			"leave them out", p.Unsent)
	}
	return text
}

// String describes in one line the generator's resource usage, and whether it was the limit.
func (u Usage) String() string {
	verdict := map[Limit]string{
		LimitNone:      "it was not the limit",
		LimitGenerator: "IT WAS THE LIMIT: more threads would make more load",
		LimitSchedule:  "IT WAS LATE: response times include its own delay",
		LimitMachine:   "IT WAS HELD BACK: it waited for cores that others used",
	}[u.Limit]
	return fmt.Sprintf("%.2f s CPU (%.2f s user, %.2f s system), its threads ran %.0f %% of the time, or %.0f %% "+
		"including waits for a core: %s",
		u.CPU().Seconds(), u.User.Seconds(), u.System.Seconds(), 100*u.Busy, 100*u.BusyOrWaiting, verdict)
}

// millis formats a duration in milliseconds.
func millis(d time.Duration) string { return fmt.Sprintf("%.3f", float64(d)/float64(time.Millisecond)) }
