package load

import (
	"maps"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
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

// tallies are counters and histograms by command.
type tallies struct {
	commands  [numCommands]counts
	latencies [numCommands]*hdrhistogram.Histogram // nil for a command that is not in the load
	service   [numCommands]int64                   // sum over requests, ns; only in an open loop
	services  [numCommands]*hdrhistogram.Histogram // from the write to the reply; nil in a closed loop
	// from a request's due time to its write; nil unless the load is paced
	slip    *hdrhistogram.Histogram
	ownSlip *hdrhistogram.Histogram // the generator's own part of slip
}

func newTallies(o *Options) (t tallies) {
	for c, part := range [numCommands]int{set: o.Sets, get: o.Gets, multiGet: o.MultiGets} {
		if part == 0 && !(command(c) == set && o.CacheAside) {
			continue
		}
		t.latencies[c] = newHistogram()
		if o.Schedule != nil {
			t.services[c] = newHistogram()
		}
	}
	if o.paced() {
		t.slip, t.ownSlip = newHistogram(), newHistogram()
	}
	return t
}

// merge adds other, which has the same histograms.
func (t *tallies) merge(other *tallies) {
	for c := range t.commands {
		t.commands[c].add(&other.commands[c])
		t.service[c] += other.service[c]
	}
	others := other.histograms()
	for i, h := range t.histograms() {
		if h != nil && others[i].TotalCount() > 0 {
			h.Merge(others[i])
		}
	}
}

// histograms returns all histograms in a fixed order, including nil ones.
func (t *tallies) histograms() []*hdrhistogram.Histogram {
	return slices.Concat(t.latencies[:], t.services[:], []*hdrhistogram.Histogram{t.slip, t.ownSlip})
}

func (t *tallies) reset() {
	t.commands, t.service = [numCommands]counts{}, [numCommands]int64{}
	for _, h := range t.histograms() {
		if h != nil && h.TotalCount() > 0 {
			h.Reset()
		}
	}
}

// total returns the result of all commands together over a time, and the histograms of latencies and, in an open loop,
// of service times.
func (t *tallies) total(elapsed time.Duration) (r CommandResult, latencies, services *hdrhistogram.Histogram) {
	var sum counts
	var service int64
	latencies, services = newHistogram(), newHistogram()
	for c := range t.commands {
		sum.add(&t.commands[c])
		service += t.service[c]
		if t.latencies[c] != nil {
			latencies.Merge(t.latencies[c])
		}
		if t.services[c] != nil {
			services.Merge(t.services[c])
		}
	}
	if t.slip == nil || services.TotalCount() == 0 {
		services = nil
	}
	r = summariseCommand(latencies, sum, elapsed)
	r.Service = summariseIf(services, service)
	return r, latencies, services
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
	r := Window{
		Index: w.index, Length: w.length, Slip: summariseIf(w.slip, 0),
		Commands: make(map[string]CommandResult),
	}
	r.CommandResult, _, _ = w.total(w.length)
	for c := range numCommands {
		if w.commands[c].requests > 0 {
			r.Commands[c.String()] = w.command(c, w.length)
		}
	}
	if o.Schedule != nil {
		from := time.Duration(w.index) * windowLength
		r.Scheduled = o.scheduled(from+w.length) - o.scheduled(from)
	}
	return r
}

// fill sets the tallies of a run in its result; r.Elapsed is set.
func (t *tallies) fill(r *Result) {
	for c := range numCommands {
		if t.commands[c].requests > 0 {
			result := t.command(c, r.Elapsed)
			result.Histogram, result.ServiceHistogram = newHistogramOf(t.latencies[c]), newHistogramOf(t.services[c])
			r.Commands[c.String()] = result
		}
	}
	var latencies, services *hdrhistogram.Histogram
	r.Total, latencies, services = t.total(r.Elapsed)
	r.Total.Histogram, r.Total.ServiceHistogram = newHistogramOf(latencies), newHistogramOf(services)
}

func (t *tallies) command(c command, elapsed time.Duration) CommandResult {
	r := summariseCommand(t.latencies[c], t.commands[c], elapsed)
	r.Service = summariseIf(t.services[c], t.service[c])
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
