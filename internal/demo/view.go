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
