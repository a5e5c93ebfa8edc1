// Package demo shows mcmw at work: it runs memcached servers, a middleware in front of them and a load, and shows them
// on a live page and on a terminal.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync/atomic"
	"time"

	"mcmw/internal/admin"
	"mcmw/internal/hotkeys"
	"mcmw/internal/middleware"
	"mcmw/internal/route"
	"mcmw/internal/spell"
	"mcmw/internal/stats"
	"mcmw/internal/worker"
)

// drainTimeout bounds the wait for requests in flight at the end.
const drainTimeout = time.Second

// demo is a running demo, with everything that the table shows.
type demo struct {
	options  *Options
	fleet    *fleet
	m        *middleware.Middleware
	capacity int    // of the queue, batches
	clients  string // address for clients
	page     string // URL of the live page, "" for none
	load     *load
	begin    atomic.Pointer[stats.Snapshot] // when the load began, after its keys were stored; nil before
}

// Run runs a demo until ctx is done, Duration has passed or something fails. It starts the servers first, then the
// middleware, then the load, and ends them in reverse order.
func (o *Options) Run(ctx context.Context, stdout, stderr io.Writer) (err error) {
	binary, err := findMemcached()
	if err != nil {
		return err
	}
	v := newView(stdout)
	log := v.logger(stderr)
	d := &demo{options: o}
	if d.fleet, err = startFleet(ctx, binary, log); err != nil {
		return endedEarly(ctx, err)
	}
	defer d.fleet.stop()

	d.m, err = middleware.New(middleware.Options{
		Listen:         []string{"127.0.0.1:0"},
		Servers:        d.fleet.route(),
		Placement:      route.Options{Replicas: int(o.Replicas)},
		RequestOptions: worker.RequestOptions{Sharded: o.Sharded, Depth: o.Depth},
		Workers:        o.Workers,
		Writers:        middleware.WritersOne, // nothing else writes to the demo's servers
		DrainTimeout:   drainTimeout,
		Version:        o.Version,
		Log:            log,
	})
	if err != nil {
		return err
	}
	if err := d.m.Listen(); err != nil {
		return err
	}
	d.clients, d.capacity = d.m.Addrs()[0].String(), d.m.Stats().Snapshot().QueueCapacity
	if o.Admin != "" {
		page, err := admin.Listen(o.Admin, "the demo starts", log)
		if err != nil {
			return fmt.Errorf("%w; choose another address with --admin", err)
		}
		defer page.Close()
		d.page = "http://" + page.Addr().String() + "/"
		page.Show(admin.Options{
			Registry: d.m.Stats(), Memcached: d.m.AskServers, Ready: d.m.IsReady, Version: o.Version,
			HotKeys: func(n int) hotkeys.Report { return d.m.HotKeys(n, true) }, // the demo's own keys
		})
	}
	stopMiddleware := inBackground(d.m.Run)
	defer func() { err = errors.Join(err, stopMiddleware()) }()
	select {
	case <-d.m.Ready():
	case <-ctx.Done():
		return nil
	}
	elapsed, err := d.runLoad(ctx, v)
	if err != nil {
		return endedEarly(ctx, err)
	}
	if begin := d.begin.Load(); begin != nil {
		v.finish(summaryOf(d, d.m.Stats().Snapshot().Sub(begin), elapsed))
	}
	return nil
}

// endedEarly returns err, or nil if the reason is only that ctx was done.
func endedEarly(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		return nil
	}
	return err
}

// inBackground runs f until stop is called. stop returns f's error.
func inBackground(f func(context.Context) error) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- f(ctx) }()
	return func() error {
		cancel()
		return <-ended
	}
}

// runLoad runs the load until ctx is done, Duration has passed or no server is left, and shows its progress. It returns
// the time for which requests were sent.
func (d *demo) runLoad(ctx context.Context, v *view) (time.Duration, error) {
	d.load = newLoad(d.options, d.clients)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	type outcome struct {
		elapsed time.Duration
		err     error
	}
	ended := make(chan outcome, 1)
	go func() {
		elapsed, err := d.load.run(ctx, func() { d.begin.Store(d.m.Stats().Snapshot()) })
		ended <- outcome{elapsed, err}
	}()

	v.begin(d)
	refresh := time.NewTicker(v.period())
	defer refresh.Stop()
	before := d.m.Stats().Snapshot()
	alive := Servers
	for {
		select {
		case <-refresh.C:
			now := d.m.Stats().Snapshot()
			v.show(d, admin.Summarize(now.Sub(before)), d.progress())
			before = now
		case <-d.fleet.lost:
			if alive--; alive == 0 {
				cancel(errors.New("all memcached servers have ended"))
			}
		case end := <-ended:
			if alive == 0 {
				return 0, context.Cause(ctx)
			}
			return end.elapsed, end.err
		}
	}
}

// progress describes how far the demo is.
func (d *demo) progress() string {
	begin := d.begin.Load()
	if begin == nil {
		return fmt.Sprintf("storing the keys: %s of %s", spell.Count(float64(d.load.stored.Load())),
			spell.Count(float64(d.options.keys())))
	}
	text := fmt.Sprintf("%.0f s", time.Duration(stats.Now()-begin.At).Seconds())
	if d.options.Duration > 0 {
		text += fmt.Sprintf(" of %v", d.options.Duration)
	}
	return text
}

const (
	// ShardedKeys is the number of keys per GET with --sharded: a single key cannot be split.
	ShardedKeys = 12
	// maxKeys is the number of keys that the load uses, unless their values would not fit.
	maxKeys = 10_000
	// fill is the part of each server's memory that the values may fill, bytes: half of it.
	fill = Memory << 20 / 2
)

// Options are the options of a demo. Fields whose zero value has no stated meaning are required.
type Options struct {
	Clients   int
	Workers   int
	Depth     int
	ValueSize int // bytes
	MultiGet  int // keys per GET; 0: 1, or ShardedKeys with Sharded
	Ratio     Ratio
	Replicas  Replicas
	Sharded   bool
	Admin     string        // address of the live page; "": none
	Duration  time.Duration // 0: until interrupted
	Version   string        // of the program
}

// keysPerGet returns the number of keys in each GET.
func (o *Options) keysPerGet() int {
	switch {
	case o.MultiGet > 0:
		return o.MultiGet
	case o.Sharded:
		return ShardedKeys
	default:
		return 1
	}
}

// keys returns the number of keys that the load uses.
func (o *Options) keys() uint64 { return uint64(min(maxKeys, fill/o.ValueSize)) }

// String describes the demo in one line.
func (o *Options) String() string {
	text := fmt.Sprintf("%d servers, %d workers, %d clients, values of %d bytes, SET:GET %v", Servers, o.Workers,
		o.Clients,
		o.ValueSize, o.Ratio)
	if n := o.keysPerGet(); n > 1 {
		text += fmt.Sprintf(", %d keys per GET", n)
	}
	if o.Sharded {
		text += ", sharded"
	}
	if o.Replicas != 0 {
		text += fmt.Sprintf(", %v of %d servers hold each key", o.Replicas, Servers)
	}
	return text
}

// Ratio is the ratio of SETs to GETs in the load.
type Ratio struct{ Sets, Gets int }

func (r Ratio) String() string { return fmt.Sprintf("%d:%d", r.Sets, r.Gets) }

// Replicas is the number of servers that hold each key; 0 means all.
type Replicas int

func (r Replicas) String() string {
	if r == 0 {
		return "all"
	}
	return strconv.Itoa(int(r))
}
