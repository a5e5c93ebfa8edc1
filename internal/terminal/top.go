package terminal

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"mcmw/internal/admin"
)

const (
	topPeriod  = time.Second            // the interval of requests: there is a new point every second
	topSoon    = 150 * time.Millisecond // the interval if there was no new point
	topTimeout = 3 * time.Second        // for an answer
)

// These sequences switch to the terminal's alternate screen and back to the normal one, which is preserved.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l"
	leaveScreen = "\x1b[?25h\x1b[?1049l"
)

// Top is the view of a running middleware. It belongs to one goroutine.
type Top struct {
	url     string
	left    int // seconds that still have to be shown; 0: no end
	shown   Shown
	report  *admin.Report // the newest answer that had points; nil before the first
	trend   []float64     // throughput of the last seconds
	lost    error         // why there is no answer; nil while there is one
	since   time.Time     // when lost was set
	printed bool          // lost was printed
}

// Shown says what is shown besides the load.
type Shown struct {
	Keys     bool // the keys that are requested most
	Prefixes bool // the prefixes of keys that are used most
}

// NewTop returns a view of the middleware whose admin server is at url, for a number of seconds; 0: without end.
func NewTop(url string, seconds int, shown Shown) *Top {
	return &Top{url: url, left: seconds, shown: shown}
}

// Run shows the middleware until ctx is done, a key ends it, or the requested number of seconds was shown.
func (m *Top) Run(ctx context.Context, stdin *os.File, stdout, stderr io.Writer) error {
	s := NewScreen(stdout)
	if s.terminal == nil {
		m.watch(ctx, func(points []admin.Point) { m.print(stdout, stderr, points) }, nil)
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if Is(stdin) {
		restore, err := watchKeys(stdin, cancel)
		if err != nil {
			return err
		}
		defer restore()
	}
	s.whole = true
	fmt.Fprint(stdout, enterScreen)
	defer fmt.Fprint(stdout, leaveScreen)
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	defer signal.Stop(resized)
	draw := func([]admin.Point) {
		width, _ := s.size(0)
		s.Show(m.lines(width))
	}
	draw(nil)
	m.watch(ctx, draw, resized)
	return nil
}

// watch requests new points repeatedly until ctx is done or enough were shown, and calls show with them. After a value
// from resized it calls show without new points.
func (m *Top) watch(ctx context.Context, show func(news []admin.Point), resized <-chan os.Signal) {
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-resized:
			show(nil)
		case <-next.C:
			news, wait := m.ask(ctx)
			if ctx.Err() != nil {
				return
			}
			if m.left > 0 && len(news) >= m.left {
				show(news[:m.left])
				return
			}
			m.left = max(m.left-len(news), 0)
			show(news)
			next.Reset(wait)
		}
	}
}

// ask requests the points since its last call, and returns them and the time until the next request. The first call
// returns only the newest point.
func (m *Top) ask(ctx context.Context) (news []admin.Point, wait time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, topTimeout)
	defer cancel()
	var after int64
	if m.report != nil {
		after = m.newest().Sequence
	}
	report, err := admin.Fetch(ctx, m.url, after)
	if err != nil {
		if m.lost == nil {
			m.since = time.Now()
		}
		m.lost = err
		return nil, topPeriod
	}
	m.lost = nil
	if m.report != nil && report.Started != m.report.Started { // another process, with its own sequence of points
		m.report, m.trend = nil, nil
		return nil, 0
	}
	if len(report.Points) == 0 {
		return nil, topSoon
	}
	for i := range report.Points {
		m.trend = Lengthened(m.trend, report.Points[i].Rate)
	}
	news = report.Points
	if m.report == nil {
		news = news[len(news)-1:]
	}
	m.report = report
	return news, topPeriod
}

// newest returns the newest point.
func (m *Top) newest() *admin.Point { return &m.report.Points[len(m.report.Points)-1] }

// print writes a line for every point. The loss of the connection is reported once on stderr.
func (m *Top) print(stdout, stderr io.Writer, points []admin.Point) {
	if m.lost != nil && !m.printed {
		fmt.Fprintf(stderr, "%s; trying again\n", m.lost)
	}
	m.printed = m.lost != nil
	for i := range points {
		fmt.Fprintln(stdout, m.line(&points[i]))
	}
}
