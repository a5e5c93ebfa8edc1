package main

import (
	"fmt"
	"math"
	"strings"
	"time"

	"mcmw/internal/spell"
	"mcmw/internal/stats"
)

const (
	trendLength = 40 // seconds of throughput drawn
	shareWidth  = 40 // columns for the whole response time
)

// The colors of a terminal; the stages have those of the live page.
const (
	plain = "\x1b[0m"
	bold  = "\x1b[1m"
	faint = "\x1b[2m"
	red   = "\x1b[31m"
)

var stageColors = [stats.NumStages]string{"\x1b[90m", "\x1b[33m", "\x1b[34m", "\x1b[32m", "\x1b[35m"}

// rowOf returns a line of a table: a label and a text.
func rowOf(label, format string, args ...any) string {
	return faint + fmt.Sprintf("  %-15s", label) + plain + fmt.Sprintf(format, args...)
}

// secondOf returns the lines for one second: throughput, response time, stages, queue, workers, keys and failures.
// workers and capacity, of the queue, are how many there are.
func secondOf(s *stats.Summary, trend []float64, workers, capacity int) []string {
	lines := []string{
		rowOf("throughput", bold+"%s"+plain+" requests/s  %s", spell.Count(s.Rate), sparks(trend)),
		rowOf("response time", "p50 "+bold+"%s"+plain+"  p90 %s  p99 %s  p99.9 %s  mean %s",
			spell.Time(s.P50), spell.Time(s.P90), spell.Time(s.P99), spell.Time(s.P999), spell.Time(s.Mean)),
	}
	for i, mean := range s.Stages {
		share := 0.0
		if s.Mean > 0 {
			share = mean / s.Mean
		}
		lines = append(lines, rowOf("  "+stats.Stage(i).String(), "%8s %3.0f %%  %s", spell.Time(mean), share*100, stageColors[i]+bar(share)+plain))
	}
	found := "none looked up"
	if s.Keys > 0 {
		found = fmt.Sprintf("%s/s looked up, %.1f %% found", spell.Count(s.Keys), (1-s.Misses/s.Keys)*100)
	}
	failed := "none"
	if s.Errors > 0 {
		failed = red + spell.Count(s.Errors) + " requests/s" + plain
	}
	return append(lines,
		rowOf("queue", "%.1f requests waiting, %d of %s places taken", s.Waiting, s.Batches, spell.Count(float64(capacity))),
		rowOf("workers", "%.1f of %d busy, %.1f requests per round", s.Busy, workers, s.Batch),
		rowOf("keys", "%s", found),
		rowOf("failed", "%s", failed),
	)
}

// lineOfSecond describes one second in a line.
func lineOfSecond(s *stats.Summary, workers int) string {
	return fmt.Sprintf("%s requests/s, mean %s, p50 %s, p99 %s; %.1f waiting, %.1f of %d workers busy, %s failed/s",
		spell.Count(s.Rate), spell.Time(s.Mean), spell.Time(s.P50), spell.Time(s.P99), s.Waiting, s.Busy, workers, spell.Count(s.Errors))
}

// lengthened returns trend with v appended, cut at its beginning to the length drawn.
func lengthened(trend []float64, v float64) []float64 {
	trend = append(trend, v)
	return trend[max(0, len(trend)-trendLength):]
}

// tableOf returns the lines of the demo's table.
func tableOf(d *demo, s stats.Summary, trend []float64, progress string) []string {
	lines := []string{bold + "mcmw demo" + plain + "  " + d.options.String()}
	if d.page != "" {
		lines = append(lines, rowOf("live page", "%s", d.page))
	}
	lines = append(lines, rowOf("clients", "%s  %s", d.clients, faint+"(yours may connect too)"+plain), "")
	lines = append(lines, secondOf(&s, trend, d.options.workers, d.capacity)...)
	lines = append(lines, "",
		faint+fmt.Sprintf("  %-13s %-17s %11s %9s %9s %11s", "server", "address", "requests/s", "mean", "p99", "failures/s")+plain)
	for i, server := range d.fleet.servers {
		load := s.Servers[i]
		state := fmt.Sprintf("%11s", spell.Count(load.Errors))
		if server.hasEnded() {
			state = red + "      ended" + plain
		}
		lines = append(lines, fmt.Sprintf("  %-13s %-17s %11s %9s %9s %s", server.name, server.addr, spell.Count(load.Rate), spell.Time(load.Mean),
			spell.Time(load.P99), state))
	}
	return append(lines, "", faint+"  "+progress+"; Ctrl-C ends it"+plain)
}

// introOf returns the text above the lines of lineOf.
func introOf(d *demo) string {
	text := "mcmw demo: " + d.options.String() + "; clients may connect to " + d.clients
	if d.page != "" {
		text += "; live page " + d.page
	}
	return text
}

// lineOf returns what happened in a line.
func lineOf(d *demo, s stats.Summary, progress string) string {
	return progress + ": " + lineOfSecond(&s, d.options.workers)
}

// summaryOf returns the final lines: the whole run, measured by the middleware and by its clients.
func summaryOf(d *demo, w *stats.Snapshot, elapsed time.Duration) []string {
	s := w.Summary()
	stages := make([]string, stats.NumStages)
	for i, mean := range s.Stages {
		stages[i] = fmt.Sprintf("%s in %s", spell.Time(mean), stats.Stage(i))
	}
	clients := d.load.registry.Snapshot()
	seen := clients.All()
	failed := uint64(0)
	for _, results := range clients.Requests {
		failed += results[stats.ResultServerError]
	}
	lines := []string{
		fmt.Sprintf("%s requests in %.1f s: %s/s; %s failed", spell.Count(float64(seen.Count())), elapsed.Seconds(),
			spell.Count(float64(seen.Count())/elapsed.Seconds()), spell.Count(float64(failed))),
		fmt.Sprintf("response time as the clients saw it: mean %s, p50 %s, p90 %s, p99 %s, p99.9 %s", spell.Time(seen.Mean()),
			spell.Time(seen.Quantile(0.5)), spell.Time(seen.Quantile(0.9)), spell.Time(seen.Quantile(0.99)), spell.Time(seen.Quantile(0.999))),
		fmt.Sprintf("response time within mcmw: mean %s, p50 %s, p90 %s, p99 %s, p99.9 %s", spell.Time(s.Mean), spell.Time(s.P50), spell.Time(s.P90),
			spell.Time(s.P99), spell.Time(s.P999)),
		fmt.Sprintf("of its mean: %s", strings.Join(stages, ", ")),
	}
	for i, server := range d.fleet.servers {
		times := &w.Servers[i].Times
		lines = append(lines, fmt.Sprintf("%s: %s requests, mean %s, p99 %s", server.name, spell.Count(float64(times.Count())),
			spell.Time(times.Mean()), spell.Time(times.Quantile(0.99))))
	}
	if d.load.failure != "" {
		lines = append(lines, "the first failure: "+d.load.failure)
	}
	return lines
}

// bar returns a bar for a share, 0 to 1, of shareWidth columns, to an eighth of a column.
func bar(share float64) string {
	eighths := int(math.Round(min(max(share, 0), 1) * shareWidth * 8))
	text := strings.Repeat("█", eighths/8)
	if rest := eighths % 8; rest > 0 {
		text += string([]rune("▏▎▍▌▋▊▉")[rest-1])
	}
	return text
}

// sparks draws values as a line of columns, scaled to the greatest value.
func sparks(values []float64) string {
	steps := []rune("▁▂▃▄▅▆▇█")
	greatest := 0.0
	for _, v := range values {
		greatest = max(greatest, v)
	}
	var b strings.Builder
	for _, v := range values {
		i := 0
		if greatest > 0 {
			i = int(v / greatest * float64(len(steps)-1))
		}
		b.WriteRune(steps[i])
	}
	return b.String()
}
