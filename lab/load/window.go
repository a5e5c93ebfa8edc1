package load

import (
	"maps"
	"slices"
	"time"
)

// windowLength is the length of a window of the time series, except the last.
const windowLength = time.Second

// maxWindows limits the series of an endless run to a day. The oldest windows are dropped.
const maxWindows = 24 * 60 * 60

// window has one thread's measurements in one window. It goes from the thread to Run and back for reuse; whoever has it
// owns it.
type window struct {
	index  int // since recording began
	length time.Duration
	last   bool // the thread's last window
	tallies
}

// tallies are what is counted and timed.
type tallies struct {
	commands      [numCommands]tally
	slip, ownSlip distribution // as in PaceResult; only if the load is paced
}

// tally is what is counted and timed of a command.
type tally struct {
	counts
	latency distribution // only of a command that is in the load
	service distribution // from the write to the reply; only in an open loop
}

func newTallies(o *Options) (t tallies) {
	for c, part := range [numCommands]int{set: o.Sets, get: o.Gets, multiGet: o.MultiGets} {
		if part == 0 && !(command(c) == set && o.CacheAside) {
			continue
		}
		t.commands[c].latency = newDistribution()
		if o.Schedule != nil {
			t.commands[c].service = newDistribution()
		}
	}
	if o.paced() {
		t.slip, t.ownSlip = newDistribution(), newDistribution()
	}
	return t
}

// merge adds other, which times the same.
func (t *tallies) merge(other *tallies) {
	for c := range t.commands {
		t.commands[c].merge(&other.commands[c])
	}
	t.slip.add(&other.slip)
	t.ownSlip.add(&other.ownSlip)
}

func (t *tally) merge(other *tally) {
	t.add(&other.counts)
	t.latency.add(&other.latency)
	t.service.add(&other.service)
}

func (t *tallies) reset() {
	for c := range t.commands {
		t.commands[c].counts = counts{}
		t.commands[c].latency.reset()
		t.commands[c].service.reset()
	}
	t.slip.reset()
	t.ownSlip.reset()
}

// total returns the tally of all commands together.
func (t *tallies) total() *tally {
	all := tally{latency: newDistribution(), service: newDistribution()}
	for c := range t.commands {
		all.merge(&t.commands[c])
	}
	return &all
}

// result returns the result over a time. whole says whether it has histograms.
func (t *tally) result(elapsed time.Duration, whole bool) CommandResult {
	r := CommandResult{
		Requests: t.requests, Hits: t.hits, Misses: t.keys - t.hits, Failures: t.failures,
		Latency: *t.latency.summary(),
	}
	if elapsed > 0 {
		r.OpsPerSec = float64(t.requests) / elapsed.Seconds()
	}
	if whole {
		r.Histogram = newHistogramOf(t.latency.h)
	}
	if !t.service.empty() {
		r.Service = t.service.summary()
		if whole {
			r.ServiceHistogram = newHistogramOf(t.service.h)
		}
	}
	return r
}

// results returns the results of all commands together, and of each that was sent.
func (t *tallies) results(elapsed time.Duration, whole bool) (CommandResult, map[string]CommandResult) {
	each := make(map[string]CommandResult)
	for c := range numCommands {
		if t.commands[c].requests > 0 {
			each[c.String()] = t.commands[c].result(elapsed, whole)
		}
	}
	return t.total().result(elapsed, whole), each
}

func newWindow(o *Options) *window { return &window{tallies: newTallies(o)} }

func (w *window) reset(index int) {
	w.tallies.reset()
	*w = window{index: index, tallies: w.tallies}
}

// series combines the windows of all threads. Run owns it.
type series struct {
	o       *Options
	threads int
	sum     tallies // over all windows
	open    map[int]*openWindow
	next    int   // index of the oldest window that isn't closed
	ended   []int // index of the last window of every thread that has ended
	windows []Window
}

// openWindow is a window that not all threads have reported yet.
type openWindow struct {
	window
	reports int
}

func newSeries(o *Options, threads int) *series {
	return &series{o: o, threads: threads, sum: newTallies(o), open: make(map[int]*openWindow)}
}

// add adds a thread's window, and reports whether this completes a window.
func (s *series) add(w *window) (complete bool) {
	o := s.open[w.index]
	if o == nil {
		o = &openWindow{window: *newWindow(s.o)}
		o.index = w.index
		s.open[w.index] = o
	}
	o.reports++
	o.length = max(o.length, w.length)
	o.merge(&w.tallies)
	if w.last {
		s.ended = append(s.ended, w.index)
	}
	for {
		o, ok := s.open[s.next]
		if !ok || !s.isComplete(o) {
			return complete
		}
		s.close(o)
		complete = true
	}
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
	s.sum.merge(&o.tallies)
	s.windows, s.next = append(s.windows, o.summary(s.o)), o.index+1
}

func (w *window) summary(o *Options) Window {
	r := Window{Index: w.index, Length: w.length, Slip: w.slip.summary()}
	r.CommandResult, r.Commands = w.results(w.length, false)
	if o.Schedule != nil {
		from := time.Duration(w.index) * windowLength
		r.Scheduled = o.scheduled(from+w.length) - o.scheduled(from)
	}
	return r
}

// finish closes the windows that are still open. The threads have ended, some perhaps with an error.
func (s *series) finish() []Window {
	for _, index := range slices.Sorted(maps.Keys(s.open)) {
		s.close(s.open[index])
	}
	// A load that ends exactly with a second has no requests in the next one.
	if last := len(s.windows) - 1; last > 0 && s.windows[last].Length == 0 && s.windows[last].Requests == 0 {
		s.windows = s.windows[:last]
	}
	return s.windows
}
