package middleware

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"mcmw/internal/backend"
	"mcmw/internal/marker"
	"mcmw/internal/route"
)

// record returns the placement of p in the form that is put on the servers; during a change of placement that by which keys are read.
func (p *pool) record() marker.Placement {
	in, share := placed{p.router, p.options.Options}, p.share
	if p.change != nil {
		in, _ = p.change.ends()
	}
	if p.had != nil && p.rerouting == route.DeleteNew {
		share = p.had
	}
	return p.of(in, share)
}

// of returns a placement of the pool, with those keys, in the form that is put on the servers.
func (p *pool) of(q placed, share *route.Share) marker.Placement {
	record := q.record()
	record.Share = share
	return record
}

// history returns, each once, the earlier placements by which servers may still hold keys, and whether there were more; during a change of
// placement the one by which keys are not read.
func (p *pool) history() (previous []marker.Placement, more bool) {
	current := p.record()
	if p.changing() {
		all, shares := []placed{{p.router, p.options.Options}}, []*route.Share{p.share}
		if p.change != nil {
			read, other := p.change.ends()
			if all[0] = read; p.router.Phase() != route.Settled {
				all = append(all, other)
			}
		}
		if p.had != nil {
			shares = append(shares, p.had)
		}
		for _, in := range all {
			for _, share := range shares {
				if record := p.of(in, share); !record.Equal(&current) {
					previous = append(previous, record)
				}
			}
		}
		if p.options.inPhases(p.step) {
			return previous, false
		}
	}
	for _, f := range p.previous {
		known := func(q marker.Placement) bool { return q.Equal(&f.record) }
		if !f.record.Equal(&current) && !slices.ContainsFunc(previous, known) {
			previous = append(previous, f.record)
		}
	}
	return previous, p.more
}

// beginRecords judges the servers that were reached by the records they hold, takes over what earlier middlewares knew, and
// starts keeping records.
func (p *pool) beginRecords() {
	if p.records == nil {
		return
	}
	p.records.RespectMarks(p.heeds())
	p.records.Gutter(p.diverts())
	looks := p.records.Looks()
	newest := looks.Newest()
	for _, s := range p.servers {
		if _, reached := looks[s.Name]; reached {
			s.Judge(looks)
		}
	}
	if newest != nil && !p.options.inPhases(p.step) {
		p.remember(newest)
	}
	previous, more := p.history()
	running := ""
	if p.router.N() > 1 {
		host, _ := os.Hostname()
		if before := looks.Running(); before != "" {
			p.unswept.Store(true)
			if p.options.Writers == WritersOne {
				p.log.Warn("a middleware before has not ended in order: the replicas are compared", "was", before)
			} else { // each begins so that starts while others run
				p.log.Info("another middleware runs, or has not ended in order: the replicas are compared", "was", before)
			}
		}
		running = fmt.Sprintf("%s %d %s", host, os.Getpid(), time.Now().UTC().Format(time.RFC3339Nano))
	}
	p.records.Begin(running, p.record(), previous, more, p.servers)
	p.place(p.changing(), p.servers)
}

// aftermath is how long a start waits after a middleware that has not ended in order, before servers are cleaned and clients served:
// that one's connections are closed, but a server, or what is in front of it, may take this long to notice, and do what it holds of them.
const aftermath = 200 * time.Millisecond

// endRecords records on the servers that nothing is under way any more. Otherwise the next start has to compare the replicas.
func (p *pool) endRecords(ctx context.Context, timeout time.Duration) {
	if p.records == nil || p.unswept.Load() {
		return
	}
	for _, s := range p.servers {
		if !s.Settled() {
			p.log.Warn("a server may still carry out writes that it has not answered: the next start compares the replicas", "server", s.Name)
			return
		}
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	p.records.End(ctx)
}

// remember makes the placements in a record previous ones of p.
func (p *pool) remember(record *marker.Record) {
	current := p.record()
	p.more = record.More
	for _, old := range append([]marker.Placement{record.Placement}, record.Previous...) {
		router, err := old.Router()
		if old.Equal(&current) || err != nil {
			continue
		}
		if len(p.previous) == keepPrevious {
			p.more = true
			break
		}
		f := placement{router: router, record: old}
		for _, was := range old.Servers {
			at := slices.IndexFunc(p.servers, func(s *backend.Server) bool { return s.Name == was.Name })
			if at < 0 {
				f.servers = append(f.servers, nil)
			} else {
				f.servers = append(f.servers, p.servers[at])
			}
		}
		p.previous = append(p.previous, f)
	}
	if p.more {
		for _, s := range p.servers {
			s.LeaveAllBehind()
		}
	}
}

// movedKeys returns which keys may be old on a server because they were placed elsewhere since newest was put there, or
// before; nil if there can be none. unknown: it is not known where keys were.
func (m *Middleware) movedKeys(t *poolState, server string, newest *marker.Record) (keys func(key []byte) bool, unknown bool) {
	p := m.current.Load().of(t)
	if p == nil {
		p = t.first.Load()
	}
	if p == nil {
		return nil, false // the pool is gone
	}
	current, is := p.record(), p.wantedRecord()
	wanted, err := is.Router()
	if err != nil {
		return nil, true
	}
	same := newest.Placement.Equal(&current)
	if same && !newest.Changing {
		return nil, false // handled when that became the placement
	}
	var were []*route.Router
	for _, old := range append([]marker.Placement{newest.Placement}, newest.Previous...) {
		router, err := old.Router()
		if err != nil {
			return nil, true
		}
		if !is.Share.SameNames(old.Share) {
			router = new(route.Router) // what it holds under that key is another key's
		}
		if wanted.Gains(server, router) {
			were = append(were, router)
		}
	}
	switch {
	case newest.More:
		return nil, true
	case len(were) == 0:
		return nil, false
	}
	return func(key []byte) bool {
		return wanted.Holds(server, key) && slices.ContainsFunc(were, func(r *route.Router) bool { return !r.Holds(server, key) })
	}, false
}
