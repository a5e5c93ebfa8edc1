package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"mcmw/internal/admin"
	"mcmw/internal/middleware"
	"mcmw/internal/route"
	"mcmw/internal/spell"
	"mcmw/internal/stats"
	"mcmw/internal/worker"
)

// demoDrain bounds how long the middleware waits for requests in flight at the end.
const demoDrain = time.Second

func newDemoCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "demo",
		Short: "Run three memcached servers, the middleware, a load and a live page",
		Long: fmt.Sprintf("Start %d memcached servers on free ports, the middleware in front of them, and a load, and show what\n"+
			"happens, here and on a live page, until interrupted. Nothing is left behind.", demoServers),
		Example: "  mcmw demo\n" +
			"  mcmw demo --clients 128 --workers 8 --depth 1\n" +
			"  mcmw demo --replicas 1 --sharded --duration 30s",
		Args: cobra.NoArgs,
	}
	o := addDemoFlags(command)
	command.RunE = func(cmd *cobra.Command, _ []string) error {
		return o.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
	}
	return command
}

// demo is a running demo, with everything that the table shows.
type demo struct {
	options  *demoOptions
	fleet    *demoFleet
	m        *middleware.Middleware
	capacity int    // of the queue, batches
	clients  string // address for clients
	page     string // URL of the live page, "" for none
	load     *demoLoad
	begin    atomic.Pointer[stats.Snapshot] // when the load began, after its keys were stored; nil before
}

// run runs a demo until ctx is done, the time is over, or something fails. It starts the servers first, then the
// middleware, then the load, and ends them in reverse.
func (o *demoOptions) run(ctx context.Context, stdout, stderr io.Writer) (err error) {
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
		Placement:      route.Options{Replicas: int(o.replicas)},
		RequestOptions: worker.RequestOptions{Sharded: o.sharded, Depth: o.depth},
		Workers:        o.workers,
		DrainTimeout:   demoDrain,
		Version:        build.Version,
		Log:            log,
	})
	if err != nil {
		return err
	}
	if err := d.m.Listen(); err != nil {
		return err
	}
	d.clients, d.capacity = d.m.Addrs()[0].String(), d.m.Stats().Snapshot().QueueCapacity
	if o.admin != "" {
		stopAdmin, err := d.startAdmin(log)
		if err != nil {
			return err
		}
		defer stopAdmin()
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

// inBackground runs f until the function it returns is called, which returns f's error.
func inBackground(f func(context.Context) error) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- f(ctx) }()
	return func() error {
		cancel()
		return <-ended
	}
}

func (d *demo) startAdmin(log *slog.Logger) (stop func(), err error) {
	server := admin.New(admin.Options{
		Addr: d.options.admin, Registry: d.m.Stats(), Ready: d.m.IsReady, Version: build.Version, Log: log,
	})
	if err := server.Listen(); err != nil {
		return nil, fmt.Errorf("%w; --admin takes another one", err)
	}
	d.page = "http://" + server.Addr().String() + "/"
	stopServing := inBackground(server.Serve)
	return func() {
		if err := stopServing(); err != nil {
			log.Error("the live page has failed", "error", err)
		}
	}, nil
}

// runLoad runs the load until ctx is done, the time is over, or no server is left, and shows its progress. It returns how long
// requests were sent.
func (d *demo) runLoad(ctx context.Context, v *view) (time.Duration, error) {
	d.load = newDemoLoad(d.options, d.clients)
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
	alive := demoServers
	for {
		select {
		case <-refresh.C:
			now := d.m.Stats().Snapshot()
			v.show(d, now.Sub(before).Summary(), d.progress())
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
		return fmt.Sprintf("storing the keys: %s of %s", spell.Count(float64(d.load.stored.Load())), spell.Count(float64(d.options.keys())))
	}
	text := fmt.Sprintf("%.0f s", time.Duration(stats.Now()-begin.At).Seconds())
	if d.options.duration > 0 {
		text += fmt.Sprintf(" of %v", d.options.duration)
	}
	return text
}
