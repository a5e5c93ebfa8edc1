package main

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/term"

	"mcmw/internal/stats"
)

const (
	// tablePeriod is how often the table changes on a terminal; linePeriod is how often a line is written elsewhere.
	tablePeriod = time.Second
	linePeriod  = 5 * time.Second

	tableWidth = 100 // columns; a narrower terminal cuts the lines
	maxNotices = 3   // log lines kept below the table
)

// view shows a demo: as a table drawn over itself on a terminal, as a line now and then elsewhere. Its methods other than
// Write belong to one goroutine.
type view struct {
	out      io.Writer
	terminal *os.File // nil when out is none
	colors   bool
	drawn    int       // lines of the table on the terminal
	trend    []float64 // throughput of the last seconds

	mu      sync.Mutex // guards what follows
	stderr  io.Writer  // where log lines go without a terminal
	notices []string   // the newest log lines, all different
}

func newView(out io.Writer) *view {
	v := &view{out: out}
	if isTerminal(out) {
		v.terminal = out.(*os.File)
		v.colors = os.Getenv("NO_COLOR") == ""
	}
	return v
}

// period is how often to show something new.
func (v *view) period() time.Duration {
	if v.terminal != nil {
		return tablePeriod
	}
	return linePeriod
}

// logger returns the demo's log: below the table on a terminal, which other output would tear apart, else on stderr.
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

// Write takes a log line. Lines that say the same as one of the newest are dropped: what fails once fails again with every
// request. It may be called from any goroutine.
func (v *view) Write(text []byte) (int, error) {
	line := strings.TrimRight(string(text), "\n")
	v.mu.Lock()
	defer v.mu.Unlock()
	if slices.Contains(v.notices, line) {
		return len(text), nil
	}
	v.notices = append(v.notices, line)
	v.notices = v.notices[max(0, len(v.notices)-maxNotices):]
	if v.terminal == nil {
		fmt.Fprintln(v.stderr, line)
	}
	return len(text), nil
}

// begin is called before show.
func (v *view) begin(d *demo) {
	if v.terminal == nil {
		fmt.Fprintln(v.out, introOf(d))
	}
}

// show shows what happened since it was called before; progress says how far the demo is.
func (v *view) show(d *demo, s stats.Summary, progress string) {
	if v.terminal == nil {
		fmt.Fprintln(v.out, lineOf(d, s, progress))
		return
	}
	v.trend = append(v.trend, s.Rate)
	v.trend = v.trend[max(0, len(v.trend)-trendLength):]
	v.mu.Lock()
	notices := append([]string{}, v.notices...)
	v.mu.Unlock()

	lines := append(tableOf(d, s, v.trend, progress), notices...)
	width, height, err := term.GetSize(int(v.terminal.Fd()))
	if err != nil {
		width, height = tableWidth, len(lines)+1
	}
	v.draw(lines, width, height)
}

// draw draws the lines over those drawn before. What does not fit into width and height is cut: a line that wraps or
// scrolls away could not be drawn over.
func (v *view) draw(lines []string, width, height int) {
	var b bytes.Buffer
	if v.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA\r", v.drawn)
	}
	v.drawn = max(min(len(lines), height-1), 0)
	for _, line := range lines[:v.drawn] {
		b.WriteString(cut(line, width, v.colors))
		b.WriteString("\x1b[K\n")
	}
	b.WriteString("\x1b[J")
	_, _ = v.out.Write(b.Bytes()) // a terminal that is gone has hung up, which ends the process
}

// finish writes the last words below what is there.
func (v *view) finish(lines []string) {
	if v.terminal != nil {
		fmt.Fprintln(v.out)
	}
	for _, line := range lines {
		fmt.Fprintln(v.out, line)
	}
}

// cut returns the first width columns of line, which may hold color sequences; these are left out without colors.
func cut(line string, width int, colors bool) string {
	var b strings.Builder
	columns := 0
	for len(line) > 0 {
		if strings.HasPrefix(line, "\x1b[") {
			end := strings.IndexByte(line, 'm') + 1
			if colors {
				b.WriteString(line[:end])
			}
			line = line[end:]
			continue
		}
		r, size := utf8.DecodeRuneInString(line)
		if columns++; columns <= width {
			b.WriteRune(r)
		}
		line = line[size:]
	}
	return b.String()
}
