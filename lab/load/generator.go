package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync/atomic"
	"time"

	"mcmw/internal/stats"
)

// drainTimeout is how long Run waits for replies after the context has ended.
const drainTimeout = time.Second

// phase tells the threads how far the run is.
type phase struct {
	// static once the threads run, ns of stats.Now
	begin    int64 // of recording
	recorded int64 // end of recording with a cool-down; otherwise recording ends with the last reply
	end      int64 // of sending

	// atomic, set by Run
	stop    atomic.Bool // send no more
	abandon atomic.Bool // stop waiting for replies
}

// set sets the times for a recording that begins at a time, ns of stats.Now.
func (p *phase) set(o *Options, begin int64) {
	p.begin, p.recorded, p.end = begin, math.MaxInt64, math.MaxInt64
	if o.Duration > 0 {
		p.end = begin + int64(o.Duration)
	}
	if o.CoolDown > 0 {
		p.recorded = p.end
		p.end += int64(o.CoolDown)
	}
}

func (p *phase) isOver(now int64) bool { return now >= p.end || p.stop.Load() }

// State is the phase of a run.
type State int32

// The states, in order.
const (
	Idle State = iota
	Populating
	Connecting
	WarmingUp
	Recording
	Ended
)

var stateNames = [...]string{"idle", "populating", "connecting", "warming up", "recording", "ended"}

// String returns the state in words.
func (s State) String() string { return stateNames[s] }

// Generator runs a load once.
type Generator struct {
	// static after construction
	o       Options
	work    *workload
	threads []*thread
	phase   phase
	windows chan *window // threads -> Run: finished windows; never closed
	spare   chan *window // Run -> threads: windows for reuse; never closed

	// atomic
	used      atomic.Bool
	state     atomic.Int32
	populated atomic.Uint64
	latest    atomic.Pointer[Window]
}

// New checks the options and prepares a generator. It does not connect yet.
func New(o Options) (*Generator, error) {
	o, err := o.Complete()
	if err != nil {
		return nil, err
	}
	g := &Generator{
		o:       o,
		windows: make(chan *window, o.Threads),
		spare:   make(chan *window, o.Threads),
	}
	g.work = newWorkload(&g.o)
	for range o.Threads {
		g.threads = append(g.threads, newThread(g.work, &g.phase, g.windows, g.spare))
	}
	return g, nil
}

// Live is the progress of a run.
type Live struct {
	State     State
	Populated uint64 // keys stored before the load, on all targets together
	// Totals since the load began, including the warm-up; a few milliseconds old.
	Requests, Misses, Failures uint64
	// Latest is the last whole second of the recording; nil if there is none yet.
	Latest *Window
}

// Live returns the progress. It may be called at any time from any goroutine.
func (g *Generator) Live() Live {
	l := Live{
		State:     State(g.state.Load()),
		Populated: g.populated.Load(),
		Latest:    g.latest.Load(),
	}
	for _, t := range g.threads {
		l.Requests += t.live.requests.Load()
		hits := t.live.hits.Load()
		l.Misses += max(t.live.keys.Load(), hits) - hits
		l.Failures += t.live.failures.Load()
	}
	return l
}

// Run runs the load and returns its measurements. Every thread keeps its processor of the Go scheduler while it waits
// for replies, which costs less; meanwhile GOMAXPROCS is at least the number of threads plus two. When ctx ends, Run
// stops sending, waits up to a second for replies, and returns the result so far without an error. After another error,
// it also returns the result so far if recording had begun. Run can be called once.
func (g *Generator) Run(ctx context.Context) (*Result, error) {
	if g.used.Swap(true) {
		return nil, errors.New("a generator runs only once")
	}
	defer g.state.Store(int32(Ended))
	defer func() {
		for _, t := range g.threads {
			t.close()
		}
	}()
	if g.o.Populate {
		g.state.Store(int32(Populating))
		if err := g.populate(ctx); err != nil {
			return nil, err
		}
	}
	g.state.Store(int32(Connecting))
	if err := g.connect(ctx); err != nil {
		return nil, err
	}
	started := time.Now()
	g.phase.set(&g.o, stats.Now()+int64(g.o.WarmUp))
	g.state.Store(int32(WarmingUp))
	if needed := g.o.Threads + 2; runtime.GOMAXPROCS(0) < needed {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(needed))
	}
	all, used, err := g.drive(ctx)
	if State(g.state.Load()) != Recording {
		if err == nil {
			err = fmt.Errorf("the run ended before the end of its warm-up of %v: nothing was recorded", g.o.WarmUp)
		}
		return nil, err
	}
	result := g.result(all, used)
	result.Started = started.Add(g.o.WarmUp)
	result.Interrupted = ctx.Err() != nil
	return result, err
}

// connect opens all connections and assigns them to the threads.
func (g *Generator) connect(ctx context.Context) error {
	for id := range g.o.Connections {
		fd, err := dial(ctx, &g.o, g.o.Targets[id%len(g.o.Targets)])
		if err != nil {
			return fmt.Errorf("connection %d of %d: %w", id+1, g.o.Connections, err)
		}
		t := g.threads[id%len(g.threads)]
		t.conns = append(t.conns, newConn(g.work, id, fd))
	}
	for _, t := range g.threads {
		if err := t.open(); err != nil {
			return err
		}
		if g.o.ReconnectAfter > 0 {
			var err error
			if t.dialler, err = newDialler(t.epoll, len(t.conns), func(target string) (int, error) {
				return dial(ctx, &g.o, target)
			}); err != nil {
				return err
			}
		}
	}
	return nil
}

// drive runs the threads to their end. It returns the time series, the resources used during recording, and the first
// error.
func (g *Generator) drive(ctx context.Context) (all *series, used Usage, first error) {
	var before Usage
	beginRecording := func() {
		if State(g.state.Swap(int32(Recording))) != Recording {
			before = processUsage()
		}
	}
	if g.o.WarmUp == 0 {
		beginRecording()
	}
	recordingEnded := false
	endRecording := func() {
		if !recordingEnded && State(g.state.Load()) == Recording {
			recordingEnded, used = true, processUsage().minus(before)
		}
	}
	ended := make(chan error, len(g.threads)) // threads -> drive: one result each; never closed
	for _, t := range g.threads {
		go func() { ended <- t.run() }()
	}
	all = newSeries(&g.o, len(g.threads))
	defer context.AfterFunc(ctx, func() {
		g.phase.stop.Store(true)
		time.AfterFunc(drainTimeout, func() { g.phase.abandon.Store(true) })
	})()
	begin, recorded := time.After(time.Duration(g.phase.begin-stats.Now())),
		time.After(time.Duration(g.phase.recorded-stats.Now()))
	for running := len(g.threads); running > 0; {
		select {
		case <-begin:
			beginRecording()
		case <-recorded:
			endRecording()
		case w := <-g.windows:
			g.collect(all, w)
		case err := <-ended:
			running--
			if err != nil {
				first = cmp.Or(first, err)
				g.phase.abandon.Store(true)
			}
		}
	}
	for len(g.windows) > 0 {
		g.collect(all, <-g.windows)
	}
	if first == nil && stats.Now() >= g.phase.begin {
		beginRecording() // the recording was so short that the threads ended before its timer fired
	}
	endRecording()
	all.finish()
	return all, used, first
}

// collect adds a thread's window to the series and returns it for reuse.
func (g *Generator) collect(all *series, w *window) {
	if all.add(w) {
		latest := all.windows[len(all.windows)-1]
		g.latest.Store(&latest)
	}
	select {
	case g.spare <- w:
	default:
	}
}

// result combines what the threads recorded. They have ended.
func (g *Generator) result(all *series, used Usage) *Result {
	r := Describe(&g.o)
	r.Windows = all.windows
	var last int64
	var unsent uint64
	var dialled int64
	var sent bunches
	for _, t := range g.threads {
		last = max(last, t.lastReply)
		unsent += t.unsent
		if t.dialler != nil {
			r.Reconnects += t.dialler.made
			dialled += t.dialler.took
		}
		sent.requests += t.bunches.requests
		sent.together += t.bunches.together
		r.BytesIn += t.trafficTo.in - t.trafficFrom.in
		r.BytesOut += t.trafficTo.out - t.trafficFrom.out
		r.FirstFailure = cmp.Or(r.FirstFailure, t.firstFailure)
	}
	if r.Reconnects > 0 {
		r.ConnectMean = time.Duration(dialled / int64(r.Reconnects))
	}
	r.Elapsed = time.Duration(max(last-g.phase.begin, 0))
	r.Total, r.Commands = all.sum.results(r.Elapsed, true)
	if slip := all.sum.slip.summary(); slip != nil {
		r.Pace = &PaceResult{Slip: *slip, OwnSlip: *all.sum.ownSlip.summary(), Unsent: unsent}
		if g.o.Schedule != nil {
			r.Pace.Scheduled = g.o.scheduled(r.Elapsed)
			if g.o.Schedule.Poisson && sent.requests > 0 && r.Elapsed > 0 {
				scheduled := r.Elapsed // or less, to leave out the wait for the last reply
				if g.o.Duration > 0 {
					scheduled = min(scheduled, g.o.Duration)
				}
				rate := r.Pace.Scheduled / float64(scheduled) / float64(g.o.Threads) // per thread, 1/ns
				r.Pace.SentTogether = float64(sent.together) / float64(sent.requests)
				r.Pace.DueTogether = -math.Expm1(-rate * float64(bunchGap))
			}
		}
	}
	r.Generator = used.Over(r.Elapsed, g.o.Threads)
	r.judgePace()
	return r
}

// Describe returns a result without measurements that describes the load, whose defaults are filled in.
func Describe(o *Options) *Result {
	r := &Result{
		Targets:     o.Targets,
		Threads:     o.Threads,
		Connections: o.Connections,
		Pipeline:    o.Pipeline,
		Protocol:    o.Protocol.String(),
		ThinkTime:   o.ThinkTime,
		ThinkRandom: o.ThinkRandom,
		Sets:        o.Sets,
		Gets:        o.Gets,
		MultiGets:   o.MultiGets,
		KeysPerGet:  o.KeysPerGet,
		ValueSize:   o.ValueSize,
		ValueSizes:  o.Sizes.String(),
		KeyPattern:  string([]byte{byte(o.SetKeys), ':', byte(o.GetKeys)}),
		Keys:        o.keyCount(),
		ExpiryMin:   o.ExpiryMin,
		ExpiryMax:   o.ExpiryMax,
		Seed:        o.Seed,
		TLS:         o.TLS != nil,
		CacheAside:  o.CacheAside,

		ReconnectAfter: o.ReconnectAfter,
		Driver:         DriverOwn,
		Commands:       make(map[string]CommandResult),
	}
	if !o.Sizes.fixed() {
		r.ValueSize = 0
	}
	if o.Schedule != nil {
		r.Rate, r.Arrivals = o.Schedule.String(), "even"
		switch {
		case o.Schedule.Trace != nil:
			r.Arrivals, r.ValueSizes = "recorded", fmt.Sprintf("up to %d", max(o.Schedule.Trace.largest, o.ValueSize))
		case o.Schedule.Poisson:
			r.Arrivals = "poisson"
		}
	}
	return r
}
