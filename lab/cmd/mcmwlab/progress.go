package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"mcmw/lab/load"
)

const (
	// refreshTerminal is the refresh interval of the progress line on a terminal.
	refreshTerminal = 500 * time.Millisecond
	// refreshPlain is the interval of progress lines elsewhere.
	refreshPlain = 5 * time.Second
)

// progress shows a changing line on a terminal, or separate lines elsewhere.
type progress struct {
	out      io.Writer
	terminal bool
	shown    bool // the terminal shows a line
}

func newProgress(out io.Writer) *progress {
	file, ok := out.(*os.File)
	return &progress{out: out, terminal: ok && term.IsTerminal(int(file.Fd()))}
}

// repeat calls f periodically until the returned function is called.
func (p *progress) repeat(f func(now time.Time)) (stop func()) {
	interval := refreshPlain
	if p.terminal {
		interval = refreshTerminal
	}
	done := make(chan struct{})
	var ended sync.WaitGroup
	ended.Go(func() {
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case now := <-ticker.C:
				f(now)
			}
		}
	})
	return func() {
		close(done)
		ended.Wait()
	}
}

// show writes the line. On a terminal it replaces the previous one.
func (p *progress) show(line string) {
	if !p.terminal {
		fmt.Fprintln(p.out, line)
		return
	}
	fmt.Fprintf(p.out, "\r\x1b[K%s", line)
	p.shown = true
}

func (p *progress) clear() {
	if p.shown {
		fmt.Fprint(p.out, "\r\x1b[K")
		p.shown = false
	}
}

// barWidth is the number of characters of a bar.
const barWidth = 20

// bar draws the completed part, 0 to 1: "[########------------]  42 %".
func bar(part float64) string {
	part = min(max(part, 0), 1)
	full := int(part * barWidth)
	return fmt.Sprintf("[%s%s] %3.0f %%", strings.Repeat("#", full), strings.Repeat("-", barWidth-full), 100*part)
}

// showLoad shows a run's progress until the returned function is called.
func showLoad(out io.Writer, g *load.Generator, o load.Options) (stop func()) {
	p := newProgress(out)
	began := time.Now()
	whole := o.WarmUp + o.Duration + o.CoolDown
	end := p.repeat(func(now time.Time) {
		live := g.Live()
		line := loadLine(live, o)
		if live.State == load.Populating {
			began = now // populating is not part of the load's time
		} else if spent := now.Sub(began); p.terminal && o.Duration > 0 {
			line = fmt.Sprintf("%s, %v left; %s", bar(float64(spent)/float64(whole)),
				max(whole-spent, 0).Round(time.Second), line)
		}
		p.show(line)
	})
	return func() {
		end()
		p.clear()
	}
}

// loadLine describes a run's progress.
func loadLine(l load.Live, o load.Options) string {
	switch {
	case l.State == load.Populating:
		return fmt.Sprintf("populating: %d of %d keys", l.Populated, (o.KeyMax-o.KeyMin+1)*uint64(len(o.Targets)))
	case l.Latest == nil:
		return fmt.Sprintf("%s: %d requests", l.State, l.Requests)
	}
	line := fmt.Sprintf("second %d", l.Latest.Index+1)
	if o.Duration > 0 {
		line += fmt.Sprintf(" of %.0f", o.Duration.Seconds())
	}
	return line + fmt.Sprintf(": %.0f ops/s, mean %.3f ms, p99 %.3f ms; %d requests, %d misses, %d errors",
		l.Latest.OpsPerSec, l.Latest.Latency.Mean.Seconds()*1e3, l.Latest.Latency.P99.Seconds()*1e3, l.Requests,
		l.Misses, l.Failures)
}
