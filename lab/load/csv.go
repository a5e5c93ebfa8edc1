package load

import (
	"encoding/csv"
	"io"
	"slices"
	"strconv"
	"time"
)

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
