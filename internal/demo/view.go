package demo

import (
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"mcmw/internal/admin"
	"mcmw/internal/spell"
	"mcmw/internal/stats"
	"mcmw/internal/terminal"
)

const (
	// tablePeriod is the time between updates of the table on a terminal, linePeriod the time between lines elsewhere.
	tablePeriod = time.Second
	linePeriod  = 5 * time.Second

	maxNotices = 3 // log lines kept below the table
)

// view shows a demo: on a terminal as a table that is updated in place, elsewhere as a line every linePeriod. One
// goroutine calls its methods other than Write.
type view struct {
	out    io.Writer
	table  bool // out is a terminal
	screen *terminal.Screen
	trend  []float64 // throughput of the last seconds

	mu      sync.Mutex // guards what follows
	stderr  io.Writer  // for log lines without a terminal
	notices []string   // the newest log lines, without repetitions
}

func newView(out io.Writer) *view {
	return &view{out: out, table: terminal.Is(out), screen: terminal.NewScreen(out)}
}

// period returns the time between calls of show.
func (v *view) period() time.Duration {
	if v.table {
		return tablePeriod
	}
	return linePeriod
}

// logger returns the demo's log. On a terminal its lines are shown below the table, because other output would damage
// the table; elsewhere they go to stderr.
func (v *view) logger(stderr io.Writer) *slog.Logger {
	v.stderr = stderr
	return slog.New(slog.NewTextHandler(v, &slog.HandlerOptions{
		Level: slog.LevelWarn,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey || a.Key == slog.LevelKey {
				return slog.Attr{}
			}
			return a
		},
	}))
}

// Write shows a log line. It drops a line that equals one of the newest, because a failure is logged for every request.
// Any goroutine may call it.
func (v *view) Write(text []byte) (int, error) {
	line := strings.TrimRight(string(text), "\n")
	v.mu.Lock()
	defer v.mu.Unlock()
	if slices.Contains(v.notices, line) {
		return len(text), nil
	}
	v.notices = append(v.notices, line)
	v.notices = v.notices[max(0, len(v.notices)-maxNotices):]
	if !v.table {
		fmt.Fprintln(v.stderr, line)
	}
	return len(text), nil
}

// begin is called before show.
func (v *view) begin(d *demo) {
	if !v.table {
		fmt.Fprintln(v.out, introOf(d))
	}
}

// show shows the statistics since the last call; progress describes how far the demo is.
func (v *view) show(d *demo, s admin.Summary, progress string) {
	if !v.table {
		fmt.Fprintf(v.out, "%s: %s\n", progress, terminal.Line(&s, d.options.Workers))
		return
	}
	v.trend = terminal.Lengthened(v.trend, s.Rate)
	v.mu.Lock()
	notices := append([]string{}, v.notices...)
	v.mu.Unlock()

	v.screen.Show(append(tableOf(d, s, v.trend, progress), notices...))
}

// finish writes the final lines after the view.
func (v *view) finish(lines []string) {
	if v.table {
		fmt.Fprintln(v.out)
	}
	for _, line := range lines {
		fmt.Fprintln(v.out, line)
	}
}

// tableOf returns the lines of the demo's table on a terminal.
func tableOf(d *demo, s admin.Summary, trend []float64, progress string) []string {
	lines := []string{terminal.Bold + "mcmw demo" + terminal.Plain + "  " + d.options.String()}
	if d.page != "" {
		lines = append(lines, terminal.Row("live page", "%s", d.page))
	}
	lines = append(lines, terminal.Row("clients", "%s  %s", d.clients,
		terminal.Faint+"(yours may connect too)"+terminal.Plain), "")
	lines = append(lines, terminal.Second(&s, trend, d.options.Workers, d.capacity)...)
	lines = append(lines, "",
		terminal.Faint+fmt.Sprintf("  %-13s %-17s %11s %9s %9s %11s", "server", "address", "requests/s", "mean", "p99",
			"failures/s")+terminal.Plain)
	for i, server := range d.fleet.servers {
		load := s.Servers[i]
		state := fmt.Sprintf("%11s", spell.Count(load.Errors))
		if server.hasEnded() {
			state = terminal.Red + "      ended" + terminal.Plain
		}
		lines = append(lines, fmt.Sprintf("  %-13s %-17s %11s %9s %9s %s", server.name, server.addr,
			spell.Count(load.Rate), spell.Time(load.Mean),
			spell.Time(load.P99), state))
	}
	return append(lines, "", terminal.Faint+"  "+progress+"; press Ctrl-C to end"+terminal.Plain)
}

// introOf returns the line before those for the seconds.
func introOf(d *demo) string {
	text := "mcmw demo: " + d.options.String() + "; clients may connect to " + d.clients
	if d.page != "" {
		text += "; live page " + d.page
	}
	return text
}

// summaryOf returns the final lines: the whole run, as measured by the middleware and by its clients.
func summaryOf(d *demo, w *stats.Snapshot, elapsed time.Duration) []string {
	s := admin.Summarize(w)
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
		fmt.Sprintf("response time seen by the clients: mean %s, p50 %s, p90 %s, p99 %s, p99.9 %s",
			spell.Time(seen.Mean()),
			spell.Time(seen.Quantile(0.5)), spell.Time(seen.Quantile(0.9)), spell.Time(seen.Quantile(0.99)),
			spell.Time(seen.Quantile(0.999))),
		fmt.Sprintf("response time in mcmw: mean %s, p50 %s, p90 %s, p99 %s, p99.9 %s", spell.Time(s.Mean),
			spell.Time(s.P50), spell.Time(s.P90),
			spell.Time(s.P99), spell.Time(s.P999)),
		fmt.Sprintf("of this mean: %s", strings.Join(stages, ", ")),
	}
	for i, server := range d.fleet.servers {
		times := &w.Servers[i].Times
		lines = append(lines, fmt.Sprintf("%s: %s requests, mean %s, p99 %s", server.name,
			spell.Count(float64(times.Count())),
			spell.Time(times.Mean()), spell.Time(times.Quantile(0.99))))
	}
	if d.load.failure != "" {
		lines = append(lines, "first failure: "+d.load.failure)
	}
	return lines
}
