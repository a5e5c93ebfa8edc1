package middleware

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"mcmw/internal/backend"
	"mcmw/internal/follow"
	"mcmw/internal/protocol"
	"mcmw/internal/request"
	"mcmw/internal/route"
	"mcmw/internal/stats"
)

// FollowOptions say that a pool follows another one.
type FollowOptions struct {
	follow.Options
	// Of is the name of the pool in Options.Pools that is followed, To the pool that follows it, which is not in
	// Options.Pools.
	Of string
	To PoolOptions
}

const (
	// watchEvery is the time between two looks at the lines of other middlewares, and watchLease how long a line must
	// not change until it is taken over; see follow.Watch.
	watchEvery = 2 * time.Second
	watchLease = 10 * time.Second
)

// follower is a pool that follows another one.
type follower struct {
	*follow.Follower
	watch follow.Watch
}

func (f *FollowOptions) ties() ties { return ties{"follow", f.Of, f.To.Name} }

func (f *FollowOptions) to() *PoolOptions { return &f.To }

// options returns the options of package follow.
func (f *FollowOptions) options() follow.Options {
	o := f.Options
	o.What, o.Memory = cmp.Or(o.What, follow.Deletes), cmp.Or(o.Memory, DefaultMissedMemory)
	return o
}

func (f *FollowOptions) router() (*route.Router, error) {
	router, err := route.NewPools([]route.Pool{f.To.Pool}, route.Routes{Default: f.To.Name})
	if err != nil {
		return nil, fmt.Errorf("%s%w", f.To.messagePrefix(), err)
	}
	return router, nil
}

func (f *FollowOptions) explain(_, holders string) string {
	what := f.What
	if f.Hold > 0 {
		what += fmt.Sprintf(", hold %v", f.Hold)
	}
	return fmt.Sprintf("%s, later (%s)", holders, what)
}

func (f *FollowOptions) open(m *Middleware, o *Options) (recipientKind, error) {
	log := o.Log.With("pool", f.To.Name, "follows", f.Of)
	n := &follower{Follower: follow.New(f.options(), m.present, log)}
	of := f.Of
	n.watch = follow.Watch{
		Name: f.To.Name, Follower: n, Every: watchEvery, Lease: watchLease,
		Servers: func() []*backend.Server { return m.current.Load().serversOf(of) },
	}
	return n, nil
}

func (f *follower) check(_ context.Context, _ *Options, w recipientOptions) error {
	_, err := w.(*FollowOptions).router()
	return err
}

func (f *follower) change(_ context.Context, m *Middleware, o *Options, w recipientOptions) error {
	wanted := w.(*FollowOptions)
	router, err := wanted.router()
	if err != nil {
		return err
	}
	f.Change(wanted.options())
	f.Place(router, backend.Options{
		ServerOptions: wanted.To.ServerOptions, Changes: &m.changes, Access: m.access.to(&wanted.To), Log: o.Log,
	})
	return nil
}

// begin puts a line on the servers, before a client's write is owed.
func (f *follower) begin(work context.Context) { f.watch.Begin(work) }

// run delivers. What is owed at the end stays on record, unless the pool is not to follow any more.
func (f *follower) run(ctx context.Context) {
	var watching sync.WaitGroup
	watching.Go(func() { f.watch.Run(ctx) })
	f.Run(ctx)
	watching.Wait()
	f.watch.End(context.WithoutCancel(ctx), context.Cause(ctx) == errRemoved)
}

func (f *follower) owes() bool { return f.State().Debts > 0 }

func (f *follower) outbox() request.Recipient { return f }

// serversOf returns the servers of the pool called name.
func (c *core) serversOf(name string) []*backend.Server {
	for _, p := range c.pools {
		if p.name == name {
			return p.servers
		}
	}
	return nil
}

func (f *follower) addState(t ties, to *stats.Snapshot) {
	s, now := f.State(), time.Now()
	to.Follows = append(to.Follows, stats.Follow{
		Of: t.of, To: t.name, What: f.What(), Debts: s.Debts, Age: now.Sub(s.Since(now)),
		Delivered: s.Delivered, Deletes: s.Deletes, Dropped: s.Dropped, Doubt: s.Doubt,
	})
}

// present returns what is held under keys; with value false, only the versions.
func (m *Middleware) present(keys []string, value bool) (found []follow.Present) {
	var ops []protocol.Op
	for _, key := range keys {
		ops = append(ops, follow.Ask(key, value))
	}
	found = m.ask(ops)
	ops = ops[:0]
	for i := range found {
		if op, ok := found[i].GiveBack(keys[i]); ok {
			ops = append(ops, op)
		}
	}
	m.ask(ops)
	return found
}

// ask returns what the replies to ops say. The requests are served like those of a client.
func (m *Middleware) ask(ops []protocol.Op) (found []follow.Present) {
	limits := m.current.Load().options.Limits
	for part := range slices.Chunk(ops, request.MaxBatch) {
		var texts [][]byte
		for _, op := range part {
			texts = append(texts, op.Bytes())
		}
		answers := make([]follow.Present, 0, len(part))
		caller := request.NewCaller()
		if !caller.Call(texts, &limits, m.entrance.Put, func(_ *protocol.Reply, element []byte) {
			answers = append(answers, follow.PresentOf(bytes.Clone(element)))
		}) {
			panic(fmt.Sprintf("middleware: one of %q is no request", texts))
		}
		for len(answers) < len(part) {
			answers = append(answers, follow.Present{Failed: true})
		}
		found = append(found, answers[:len(part)]...)
	}
	return found
}
