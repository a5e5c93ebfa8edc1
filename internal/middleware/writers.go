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
	WritersAuto    Writers = iota // several, if the servers support that
	WritersOne                    // this middleware alone
	WritersSeveral                // any number; servers that don't support that are not used
)

// WritersNames are the names of the values.
var WritersNames = enum.New[Writers]("writers", "auto", "one", "several")

func (w Writers) String() string { return WritersNames.Of(w) }

// replicas returns how many servers hold a key when no change is under way.
func (p *pool) replicas() int {
	if p.change == nil {
		return p.router.N()
	}
	return max(p.change.from.router.N(), p.change.to.router.N())
}

// decideWriters decides whether p's items have versions, and whether other middlewares may write its servers, so that
// stores are checked. It is called before the workers are made, when each server has been reached or is down.
func (p *pool) decideWriters(ctx context.Context) {
	shared := p.router.N() > 1 || p.migrates
	several := shared && p.options.Writers == WritersSeveral
	versioned := several
	p.undecided = false
	if !several && p.decidersMove() {
		if all, known := p.haveVersions(ctx); known {
			p.asked, p.supported = true, all
		}
		versioned, p.undecided = p.supported, !p.asked
	}
	if !p.begun && p.records != nil && p.options.inPhases(p.step) && len(p.records.Looks()) == 0 {
		p.undecided = true // a change may be under way
	}
	several = several || versioned && shared && p.options.Writers == WritersAuto
	for _, server := range p.servers {
		server.NeedVersions(versioned)
		if p.undecided {
			server.Hold(!p.begun)
		}
	}
	p.several.Store(several)
	p.versioned.Store(versioned)
}

// undecidedLook is the time between two looks whether servers of an undecided pool answer.
const undecidedLook = 100 * time.Millisecond

// decideAgain has the core replaced once a server answers of a pool that is undecided. Until then the pool's servers
// that are down stay so (Server.Hold). It returns how long drive may wait. applying is held.
func (m *Middleware) decideAgain(ctx context.Context) (wait time.Duration) {
	wait = unknown
	for _, p := range m.current.Load().pools {
		if !p.undecided {
			continue
		}
		wait = undecidedLook
		if slices.ContainsFunc(p.servers, (*backend.Server).Answers) {
			if _, known := p.haveVersions(ctx); known {
				if err := m.joinLate(ctx); err != nil {
					p.log.Error("what the servers that answer now support is not used", "error", err)
				}
				return wait
			}
		}
	}
	return wait
}

// release lets servers of pools that are decided return into service. c is the current core.
func (c *core) release() {
	for _, p := range c.pools {
		if !p.undecided {
			for _, s := range p.servers {
				s.Release()
			}
		}
	}
}

// decidersMove reports whether a conditional write of a key can be decided by one server now and by another later. Each
// server counts its items, so without versions a client's cas could be that of another item there. While each key stays
// on its only server no version is needed. Once keys have moved, a server has stored all that it got under versions,
// and a cas from before the move is none.
func (p *pool) decidersMove() bool {
	return p.router.N() > 1 || p.migrates || p.diverts() || p.change != nil || p.had != nil || p.records.Moved()
}

// respectsMarks reports whether the middlewares in front of the servers must know of each other, while they run, which
// servers missed writes.
func (p *pool) respectsMarks() bool { return p.marks(p.lingers) }

// marks is respectsMarks, where lingers says whether the pool still respects marks which it no longer needs.
func (p *pool) marks(lingers bool) bool {
	shared := lingers || p.several.Load() && p.replicas() > 1 && p.options.Ack != replica.AckAll || p.diverts() &&
		p.options.Writers != WritersOne
	return shared && len(p.servers) >= leastForMarks && p.options.Rejoin != backend.RejoinTrust
}

// agrees reports whether other middlewares may let another server decide what depends on an item, so that all must let
// the same one. With rejoin trust nothing says which one that is.
func (p *pool) agrees() bool {
	shared := p.several.Load() && p.replicas() > 1 || p.diverts() && p.options.Writers != WritersOne
	return shared && p.options.Rejoin != backend.RejoinTrust
}

// lingerEvery is the time between two checks whether a pool that no longer needs marks may stop to respect them.
const lingerEvery = time.Second

// keepsRespecting returns respected, whether the pool of p respects marks until now. p is of the next core. If p needs
// no marks, it still respects them until all its servers may be read: other middlewares may have answered writes that
// one of the servers missed. applying is held.
func (m *Middleware) keepsRespecting(p *pool, respected bool) bool {
	p.lingers = false
	if p.lingers = respected && !p.respectsMarks() && !p.readable(); p.lingers {
		m.background.Go(func() { m.endLingering(m.work, p.poolState) })
	}
	return respected
}

// endLingering waits until the pool of t may stop to respect marks, and then makes it stop.
func (m *Middleware) endLingering(ctx context.Context, t *poolState) {
	for backend.Pause(ctx, lingerEvery) {
		m.applying.Lock()
		p := m.current.Load().of(t)
		ends := p == nil || !t.lingers || p.readable()
		if ends && p != nil && t.lingers {
			t.lingers = false
			t.records.RespectMarks(p.respectsMarks())
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

// leastForMarks is the least number of servers of which another can hold the mark of one.
const leastForMarks = 2

// ack returns the acknowledgement mode that applies. barring: a server that missed a write is barred from reads before
// the write is answered with success. A mode that needs this, in a pool where it is not possible, becomes all.
func (p *pool) ack() (ack replica.Ack, barring bool) {
	kept := p.options.Rejoin != backend.RejoinTrust
	switch ack = p.options.Ack; {
	case p.respectsMarks(), p.diverts() && p.options.Writers == WritersOne && kept:
		return ack, true
	case p.diverts(): // another middleware may read a server that could not be barred
		return replica.AckAll, false
	case ack == replica.AckLive && p.options.Writers == WritersOne && kept:
		return ack, true
	case ack == replica.AckLive, ack == replica.AckAny && p.several.Load() && kept:
		return replica.AckAll, false
	}
	return ack, false
}

// ackOfBoth is ack for keys that migrate from p to q: the servers of both pools are one set of replicas then.
func ackOfBoth(p, q *pool) replica.Ack {
	ack, barring := p.ack()
	if other, barringToo := q.ack(); ack != other || !barring || !barringToo {
		return replica.AckAll
	}
	return ack
}

// haveVersions reports whether all servers that answer can store an item with a version; known: one answers. It logs a
// warning about those that can't, if one of them could or was not known before. applying is held.
func (p *pool) haveVersions(ctx context.Context) (all, known bool) {
	var mu sync.Mutex // guards what the answers change
	var with, without []string
	news := false
	eachAnswering(p.servers, func(server *backend.Server) {
		has, err := server.HasVersions(ctx)
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err != nil:
		case has:
			with = append(with, server.Name)
			delete(p.versionless, server.Name)
		default:
			without = append(without, server.Name)
			news = news || !p.versionless[server.Name]
		}
	})
	if news && (p.router.N() > 1 || p.migrates) && p.options.Writers != WritersOne {
		p.log.Warn("some servers are a memcached before 1.6.27, or run with -C: with another mcmw in front of them, "+
			"replicas would stay different and increments "+
			"would be lost; upgrade them, or set --writers one if there is no other mcmw", "servers", without)
		for _, name := range without {
			p.versionless[name] = true
		}
	}
	return len(with) > 0 && len(without) == 0, len(with)+len(without) > 0
}

// requireVersions makes connecting to a server of p fail if it can't store items with versions, with writers several.
func (p *pool) requireVersions() {
	for _, s := range p.servers {
		s.NeedVersions(p.options.Writers == WritersSeveral && (p.router.N() > 1 || p.migrates))
	}
}
