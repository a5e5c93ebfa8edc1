package middleware

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"mcmw/internal/backend"
	"mcmw/internal/follow"
	"mcmw/internal/protocol"
	"mcmw/internal/request"
	"mcmw/internal/route"
	"mcmw/internal/stats"
	"mcmw/internal/wire"
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
	// Static after construction.
	of, name string
	watch    follow.Watch

	// Guarded by Middleware.applying.
	stop  context.CancelFunc // nil until it is started
	ended chan struct{}      // closed when nothing of it runs; nil until it is started
}

// followersFor returns the followers of o: the existing one of the same pools, or a new one, which is not started. All
// have the servers and settings of o. applying is held.
func (m *Middleware) followersFor(o *Options) (all []*follower, err error) {
	for _, wanted := range o.Follows {
		router, err := route.NewPools([]route.Pool{wanted.To.Pool}, route.Routes{Default: wanted.To.Name})
		if err != nil {
			return nil, fmt.Errorf("%s%w", wanted.To.messagePrefix(), err)
		}
		same := func(f *follower) bool { return f.of == wanted.Of && f.name == wanted.To.Name }
		at := slices.IndexFunc(m.followers, same)
		var f *follower
		if at >= 0 {
			f = m.followers[at]
			f.Change(wanted.Options)
		} else {
			log := o.Log.With("pool", wanted.To.Name, "follows", wanted.Of)
			f = &follower{Follower: follow.New(wanted.Options, m.present, log), of: wanted.Of, name: wanted.To.Name}
			f.watch = follow.Watch{
				Name: f.name, Follower: f, Every: watchEvery, Lease: watchLease,
				Servers: func() []*backend.Server { return m.current.Load().serversOf(f.of) },
			}
		}
		if err = m.access.readLogins([]PoolOptions{wanted.To}, o.Log); err != nil {
			return nil, err
		}
		f.Place(router, func(s route.Server) *backend.Server {
			return backend.NewServer(s, backend.Options{
				ServerOptions: wanted.To.ServerOptions, Changes: &m.changes, Access: m.access.to(&wanted.To),
				Log: o.Log,
			})
		})
		all = append(all, f)
	}
	return all, nil
}

// serversOf returns the servers of the pool called name.
func (c *core) serversOf(name string) []*backend.Server {
	for _, p := range c.pools {
		if p.name == name {
			return p.servers
		}
	}
	return nil
}

// followersOf returns the pools that follow the pool called name.
func (c *core) followersOf(name string) (all []*follow.Follower) {
	for _, f := range c.followers {
		if f.of == name {
			all = append(all, f.Follower)
		}
	}
	return all
}

// applyFollows applies the followers of o; startFollowers starts those that are new. Those that were removed end, and
// what is owed to them is forgotten. applying is held.
func (m *Middleware) applyFollows(o *Options) error {
	all, err := m.followersFor(o)
	if err != nil {
		return err
	}
	for _, f := range m.followers {
		if !slices.Contains(all, f) {
			m.background.Go(func() { f.end(context.WithoutCancel(m.work), true) })
		}
	}
	m.followers = all
	return nil
}

// startFollowers starts the followers that have not been started. Before a client's write is owed, a line on the
// servers says so. applying is held.
func (m *Middleware) startFollowers() {
	for _, f := range m.followers {
		if m.work == nil || f.stop != nil {
			continue
		}
		f.watch.Begin(m.work)
		ctx, stop := context.WithCancel(m.work)
		f.stop, f.ended = stop, make(chan struct{})
		m.background.Go(func() {
			defer close(f.ended)
			m.background.Go(func() { f.watch.Run(ctx) })
			f.Run(ctx)
		})
	}
}

// end stops f. What is owed stays on record, unless it is gone: unless the pool is not to follow any more.
func (f *follower) end(ctx context.Context, gone bool) {
	if f.stop == nil {
		return
	}
	f.stop()
	<-f.ended
	f.watch.End(ctx, gone)
}

// endFollowers gives the followers until deadline to deliver what is owed, and ends them.
func (m *Middleware) endFollowers(ctx context.Context, deadline time.Time) {
	for _, f := range m.followers {
		for time.Now().Before(deadline) {
			if s := f.State(); s.Debts == 0 {
				break
			}
			time.Sleep(deliverPause)
		}
		f.end(ctx, false)
	}
}

// deliverPause is the time between two looks whether everything is delivered.
const deliverPause = 5 * time.Millisecond

// follows returns the state of the following pools.
func (c *core) follows() (all []stats.Follow) {
	now := time.Now()
	for _, f := range c.followers {
		s := f.State()
		all = append(all, stats.Follow{
			Of: f.of, To: f.name, What: f.What(), Debts: s.Debts, Age: now.Sub(s.Since(now)),
			Delivered: s.Delivered, Deletes: s.Deletes, Dropped: s.Dropped, Doubt: s.Doubt,
		})
	}
	return all
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
		a := &asker{answered: make(chan struct{}, 1)}
		b := request.GetBuffer(0).Batch(a)
		now := stats.Now()
		for _, op := range part {
			r := b.Add()
			if n, _, err := limits.Decode(op.Bytes(), &r.Request); n == 0 || err != nil {
				panic("middleware: " + strconv.Quote(string(op.Bytes())) + " is no request")
			}
			r.Created, r.Enqueued = now, now
		}
		m.entrance.Put(b)
		<-a.answered
		found = append(found, a.presents(len(part))...)
	}
	return found
}

// asker is the client that ask's requests are answered to.
type asker struct {
	answered chan struct{} // one token; the worker -> ask
	values   request.ValueSize
	text     []byte
}

// Crowded implements request.Client.
func (a *asker) Crowded(int) bool { return false }

// User implements request.Client.
func (a *asker) User() string { return "" }

// Values implements request.Client.
func (a *asker) Values() *request.ValueSize { return &a.values }

// Reply takes everything.
func (a *asker) Reply(g *wire.Gather) int {
	a.text = g.AppendFrom(a.text, 0)
	return g.Len()
}

// Finish implements request.Client.
func (a *asker) Finish() { a.answered <- struct{}{} }

// Stall implements request.Client. It is not called, because Reply takes everything.
func (a *asker) Stall([]byte, *request.Batch) {
	panic("middleware: Stall was called, although Reply takes everything")
}

// presents returns what the first n replies say.
func (a *asker) presents(n int) (found []follow.Present) {
	for len(found) < n {
		var rep protocol.Reply
		size, _, err := protocol.DecodeReply(a.text, &rep)
		if size == 0 || err != nil {
			found = append(found, follow.Present{Failed: true})
			continue
		}
		found = append(found, follow.PresentOf(a.text[:size]))
		a.text = a.text[size:]
	}
	return found
}
