package middleware

import (
	"context"
	"slices"
	"sync"
	"time"

	"mcmw/internal/backend"
	"mcmw/internal/enum"
	"mcmw/internal/replica"
)

// Writers says whether other middlewares write the same servers.
type Writers uint8

// The numbers of writers.
const (
	WritersAuto    Writers = iota // several, if the servers can do what that takes
	WritersOne                    // this middleware alone
	WritersSeveral                // any number; servers that cannot do what that takes are not used
)

// WritersNames are their names.
var WritersNames = enum.New[Writers]("writers", "auto", "one", "several")

func (w Writers) String() string { return WritersNames.Of(w) }

// decideWriters decides of each pool, before p's workers are made, whether they keep replicas alike beside other middlewares'. The servers have been
// reached, or are down.
func (c *core) decideWriters(ctx context.Context) {
	var deciding sync.WaitGroup
	for _, p := range c.pools {
		deciding.Go(func() { p.decideWriters(ctx) })
	}
	deciding.Wait()
}

func (p *pool) decideWriters(ctx context.Context) {
	several := (p.router.N() > 1 || p.migrates) && (p.options.Writers == WritersSeveral || p.options.Writers == WritersAuto && p.haveVersions(ctx))
	for _, server := range p.servers {
		server.NeedVersions(several)
	}
	p.several.Store(several)
}

// heeds reports whether the middlewares in front of the servers need to know, while they run, which of them missed whose writes. With fewer than
// three servers none could be away without a majority being away.
func (p *pool) heeds() bool {
	shared := p.lingers || p.several.Load() && p.router.N() > 1 && p.options.Ack != replica.AckAll || p.diverts() && p.options.Writers != WritersOne
	return shared && len(p.servers) >= leastHeeding && p.options.Rejoin != backend.RejoinTrust
}

// lingering is how often it is looked whether a pool that need not heed marks any more may stop.
const lingering = time.Second

// keepsHeeding returns heeded: q, not in force yet, heeds marks until now. If it need not any more, it does so until all its servers may be read: others may have answered
// writes that one of them missed. applying is held.
func (m *Middleware) keepsHeeding(q *pool, heeded bool) bool {
	q.lingers = false
	if q.lingers = heeded && !q.heeds() && !q.readable(); q.lingers {
		m.background.Go(func() { m.endHeeding(m.work, q.poolState) })
	}
	return heeded
}

// endHeeding waits until the pool of t may stop to heed marks, and lets it.
func (m *Middleware) endHeeding(ctx context.Context, t *poolState) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(lingering):
		}
		m.applying.Lock()
		q := m.current.Load().of(t)
		ends := q == nil || !t.lingers || q.readable()
		if ends && q != nil && t.lingers {
			t.lingers = false
			t.records.RespectMarks(q.heeds())
		}
		m.applying.Unlock()
		if ends {
			return
		}
	}
}

// readable reports whether all servers of p may be read.
func (p *pool) readable() bool {
	return !slices.ContainsFunc(p.servers, func(s *backend.Server) bool { return !s.Readable() })
}

// leastHeeding is the least number of servers of which one can be away without a majority being away.
const leastHeeding = 3

// ack returns the acknowledgement mode in force, and whether it has servers barred from reads that missed a write, before that is answered with
// success. What nobody could bar is acknowledged by all.
func (p *pool) ack() (ack replica.Ack, barring bool) {
	kept := p.options.Rejoin != backend.RejoinTrust
	switch ack = p.options.Ack; {
	case p.heeds(), p.diverts() && p.options.Writers == WritersOne && kept:
		return ack, true
	case p.diverts(): // another middleware may read what nobody could bar
		return replica.AckAll, false
	case ack == replica.AckLive && p.options.Writers == WritersOne && kept:
		return ack, true
	case ack == replica.AckLive, ack == replica.AckAny && p.several.Load() && kept:
		return replica.AckAll, false
	}
	return ack, false
}

// ackOfBoth is ack for keys that are on their way from p to q: both pools' servers are one set of replicas then.
func ackOfBoth(p, q *pool) replica.Ack {
	ack, barring := p.ack()
	if other, barringToo := q.ack(); ack != other || !barring || !barringToo {
		return replica.AckAll
	}
	return ack
}

// haveVersions reports whether the servers that answer, at least one, give items versions, and warns of those that don't.
func (p *pool) haveVersions(ctx context.Context) bool {
	var mu sync.Mutex // guards both lists
	var with, without []string
	var asking sync.WaitGroup
	for _, server := range p.servers {
		if server.Down() {
			continue
		}
		asking.Go(func() {
			has, err := server.HasVersions(ctx)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
			case has:
				with = append(with, server.Name)
			default:
				without = append(without, server.Name)
			}
		})
	}
	asking.Wait()
	if len(without) > 0 {
		p.log.Warn("with another mcmw in front of these servers, replicas would differ for good and increments be lost: some are a memcached before 1.6.27, or run with -C "+
			"(--writers one, if there is no other mcmw)", "servers", without)
	}
	return len(with) > 0 && len(without) == 0
}

// requireVersions makes sure, before servers are connected to, that they can do what several writers take, if these were asked for.
func (c *core) requireVersions() {
	for _, p := range c.pools {
		for _, s := range p.servers {
			s.NeedVersions(p.options.Writers == WritersSeveral && (p.router.N() > 1 || p.migrates))
		}
	}
}
