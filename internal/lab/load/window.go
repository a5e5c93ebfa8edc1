package load

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// windowLength is the length of a window of the time series, of all but the last.
const windowLength = time.Second

// maxWindows bounds the series of a run without end: a day. The oldest are dropped.
const maxWindows = 24 * 60 * 60

// window is what one thread saw in one window. It goes from the thread to Run and back, to be used again; whoever holds it
// owns it.
type window struct {
	index     int // since recording began
	length    time.Duration
	last      bool // the thread hands over no more
	total     counts
	latencies *hdrhistogram.Histogram
}

func newWindow() *window { return &window{latencies: newHistogram()} }

// reset makes w a fresh window.
func (w *window) reset(index int) {
	w.latencies.Reset()
	*w = window{index: index, latencies: w.latencies}
}

// series puts the windows of all threads together. Run owns it.
type series struct {
	threads int
	open    map[int]*openWindow
	ended   []int // index of the last window of every thread that has ended
	windows []Window
}

// openWindow is one that not all threads have reported yet.
type openWindow struct {
	window
	reports int
}

func newSeries(threads int) *series {
	return &series{threads: threads, open: make(map[int]*openWindow)}
}

// add takes in what a thread saw and reports whether a window is complete that wasn't before.
func (s *series) add(w *window) (complete bool) {
	o := s.open[w.index]
	if o == nil {
		o = &openWindow{window: *newWindow()}
		o.index = w.index
		s.open[w.index] = o
	}
	o.reports++
	o.length = max(o.length, w.length)
	o.total = o.total.plus(w.total)
	o.latencies.Merge(w.latencies)
	if w.last {
		s.ended = append(s.ended, w.index)
	}
	for {
		o, ok := s.open[s.nextIndex()]
		if !ok || !s.isComplete(o) {
			return complete
		}
		s.close(o)
		complete = true
	}
}

// nextIndex returns the index of the oldest window that isn't closed.
func (s *series) nextIndex() int {
	if len(s.windows) == 0 {
		return 0
	}
	return s.windows[len(s.windows)-1].Index + 1
}

func (s *series) isComplete(o *openWindow) bool {
	reports := o.reports
	for _, last := range s.ended {
		if last < o.index {
			reports++
		}
	}
	return reports >= s.threads
}

func (s *series) close(o *openWindow) {
	delete(s.open, o.index)
	if len(s.windows) == maxWindows {
		s.windows = append(s.windows[:0], s.windows[1:]...)
	}
	s.windows = append(s.windows, Window{
		Index:     o.index,
		Length:    o.length,
		Requests:  o.total.requests,
		Failures:  o.total.failures,
		OpsPerSec: perSecond(o.total.requests, o.length),
		Latency:   summarise(o.latencies, o.total),
	})
}

// finish closes what is still open: the threads have ended, some maybe by an error.
func (s *series) finish() []Window {
	for len(s.open) > 0 {
		oldest := -1
		for index := range s.open {
			if oldest < 0 || index < oldest {
				oldest = index
			}
		}
		s.close(s.open[oldest])
	}
	return s.windows
}
