package load

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"slices"
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

// csvHeader has the names of the columns of the time series. Times are in seconds.
var csvHeader = []string{
	"second", "length_s", "command", "requests", "ops_per_s", "hits", "misses", "errors", "mean_s", "min_s", "p50_s",
	"p90_s", "p99_s", "p999_s", "max_s",
	"service_mean_s", "service_p99_s", "slip_mean_s", "slip_p99_s", "scheduled",
}

// WriteCSV writes the time series: for every second one line per command, and one, "total", for all commands. Fields
// without a value are empty: service times and the scheduled number of requests in a closed loop; the slip without a
// schedule or think time, and in lines of single commands.
func (r *Result) WriteCSV(w io.Writer) error {
	table := csv.NewWriter(w)
	if err := table.Write(csvHeader); err != nil {
		return err
	}
	for _, window := range r.Windows {
		for c := range numCommands {
			if result, sent := window.Commands[c.String()]; sent {
				if err := table.Write(window.csvLine(c.String(), result, nil, "")); err != nil {
					return err
				}
			}
		}
		due := ""
		if r.Rate != "" {
			due = shortest(window.Scheduled)
		}
		if err := table.Write(window.csvLine("total", window.CommandResult, window.Slip, due)); err != nil {
			return err
		}
	}
	table.Flush()
	return table.Error()
}

// csvLine returns the fields of a command's line, or of the line "total".
func (w *Window) csvLine(name string, result CommandResult, slip *Latency, due string) []string {
	count := func(n uint64) string { return strconv.FormatUint(n, 10) }
	seconds := func(d time.Duration) string { return shortest(d.Seconds()) }
	meanAndP99 := func(l *Latency) []string {
		if l == nil {
			return []string{"", ""}
		}
		return []string{seconds(l.Mean), seconds(l.P99)}
	}
	l := result.Latency
	return slices.Concat([]string{
		strconv.Itoa(w.Index), seconds(w.Length), name, count(result.Requests), shortest(result.OpsPerSec),
		count(result.Hits), count(result.Misses), count(result.Failures),
		seconds(l.Mean), seconds(l.Min), seconds(l.P50), seconds(l.P90), seconds(l.P99), seconds(l.P999),
		seconds(l.Max),
	}, meanAndP99(result.Service), meanAndP99(slip), []string{due})
}

// shortest returns the shortest text that is read as x.
func shortest(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
