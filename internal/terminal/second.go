package terminal

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"mcmw/internal/admin"
	"mcmw/internal/spell"
	"mcmw/internal/stats"
)

const (
	trendLength = 40 // seconds of throughput that are drawn
	shareWidth  = 40 // columns for the whole response time
)

// The colors of the terminal. The stages have the colors of the live page.
const (
	Plain = "\x1b[0m"
	Bold  = "\x1b[1m"
	Faint = "\x1b[2m"
	Red   = "\x1b[31m"
)

var stageColors = [stats.NumStages]string{"\x1b[90m", "\x1b[33m", "\x1b[34m", "\x1b[32m", "\x1b[35m"}

// Row returns a line of a table with a label and a text.
func Row(label, format string, args ...any) string {
	return Faint + fmt.Sprintf("  %-15s", label) + Plain + fmt.Sprintf(format, args...)
}

// Second returns the lines for one second: throughput, response time, stages, queue, workers, keys and failures.
// workers is the number of workers, capacity that of batches in the queue.
func Second(s *admin.Summary, trend []float64, workers, capacity int) []string {
	lines := []string{
		Row("throughput", Bold+"%s"+Plain+" requests/s  %s", spell.Count(s.Rate), sparks(trend)),
		Row("response time", "p50 "+Bold+"%s"+Plain+"  p90 %s  p99 %s  p99.9 %s  mean %s",
			spell.Time(s.P50), spell.Time(s.P90), spell.Time(s.P99), spell.Time(s.P999), spell.Time(s.Mean)),
	}
	for i, mean := range s.Stages {
		share := 0.0
		if s.Mean > 0 {
			share = mean / s.Mean
		}
		lines = append(lines, Row("  "+stats.Stage(i).String(), "%8s %3.0f %%  %s", spell.Time(mean), share*100,
			stageColors[i]+bar(share)+Plain))
	}
	found := "none requested"
	if s.Keys > 0 {
		found = fmt.Sprintf("%s/s requested, %.1f %% found", spell.Count(s.Keys), (1-s.Misses/s.Keys)*100)
		if s.Hot > 0 {
			found += fmt.Sprintf(", %.1f %% in memory", s.Hot/s.Keys*100)
		}
	}
	failed := "none"
	if s.Errors > 0 {
		failed = Red + spell.Count(s.Errors) + " requests/s" + Plain
	}
	return append(lines,
		Row("queue", "%.1f requests waiting, %d of %s slots taken", s.Waiting, s.Batches,
			spell.Count(float64(capacity))),
		Row("workers", "%.1f of %d busy, %.1f requests per round", s.Busy, workers, s.Batch),
		Row("keys", "%s", found),
		Row("failed", "%s", failed),
	)
}

// Line describes one second in one line.
func Line(s *admin.Summary, workers int) string {
	return fmt.Sprintf("%s requests/s, mean %s, p50 %s, p99 %s; %.1f waiting, %.1f of %d workers busy, %s failed/s",
		spell.Count(s.Rate), spell.Time(s.Mean), spell.Time(s.P50), spell.Time(s.P99), s.Waiting, s.Busy, workers,
		spell.Count(s.Errors))
}

// Lengthened returns trend with v appended, shortened at its beginning to the length that is drawn.
func Lengthened(trend []float64, v float64) []float64 {
	trend = append(trend, v)
	return trend[max(0, len(trend)-trendLength):]
}

// bar draws a share, 0 to 1, of shareWidth columns, with a resolution of an eighth of a column.
func bar(share float64) string {
	eighths := int(math.Round(min(max(share, 0), 1) * shareWidth * 8))
	text := strings.Repeat("█", eighths/8)
	if rest := eighths % 8; rest > 0 {
		text += string([]rune("▏▎▍▌▋▊▉")[rest-1])
	}
	return text
}

// sparks draws values as a row of bars, scaled to the maximum.
func sparks(values []float64) string {
	steps := []rune("▁▂▃▄▅▆▇█")
	greatest := max(slices.Max(append([]float64{0}, values...)), math.SmallestNonzeroFloat64)
	var b strings.Builder
	for _, v := range values {
		b.WriteRune(steps[int(v/greatest*float64(len(steps)-1))])
	}
	return b.String()
}
