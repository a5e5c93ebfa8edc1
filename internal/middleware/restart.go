package middleware

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"mcmw/internal/backend"
	"mcmw/internal/marker"
	"mcmw/internal/route"
)

// record returns the placement of p in the form that the records on the servers have. During a change of placement it
// is the one by which keys are read.
func (p *pool) record() marker.Placement {
	in, share := placement{p.router, p.options.Options}, p.share
	if p.change != nil {
		in, _ = p.change.ends()
	}
	if p.had != nil && p.rerouting == route.DeleteNew {
		share = p.had
	}
	return p.of(in, share)
}

// of returns the record of a placement of the pool and of the keys that the pool has.
func (p *pool) of(q placement, share *route.Share) marker.Placement {
	record := q.record()
	record.Share = share
	return record
}

// toRecord returns what the servers' records say about the pool; changing: its placement is not fully applied yet.
func (p *pool) toRecord(changing bool) marker.Record {
	r := marker.Record{Placement: p.record(), Changing: changing, Entries: map[string]string{}, Pools: p.all}
	r.Previous, r.More = p.history()
	if wanted := p.wantedRecord(); changing && !wanted.Equal(&r.Placement) {
		r.Wanted = &wanted
	}
	for _, s := range p.options.Servers {
		if s.Entry != "" {
			r.Entries[s.Name] = s.Entry
		}
	}
	return r
}

// InForce returns the servers of the lists in force that were found by lookups, as the records on the servers of o say:
// other middlewares use these lists, or have used them last. The records of a pool are read if a lookup has found one
// of its servers. unread reports that no server of such a pool answers, so its list is unknown.
func InForce(ctx context.Context, o Options) (servers []route.Server, unread bool) {
	o = o.withDefaults()
	o.Log = slog.New(slog.DiscardHandler) // New and Run report the same
	access, err := o.access()
	if err != nil {
		return nil, false // New refuses the options
	}
	for _, p := range o.Pools {
		found := func(s route.Server) bool { return s.Entry != "" }
		if p.Rejoin == backend.RejoinTrust || !slices.ContainsFunc(p.Servers, found) {
			continue
		}
		records := backend.NewRecords(o.Log, nil) // nobody judges servers by them
		reach(ctx, p.toAsk(access, records, o.Log))
		looks := records.Looks()
		unread = unread || len(looks) == 0
		newest := looks.Newest()
		if newest == nil {
			continue
		}
		for _, s := range newest.InForce().Servers {
			s.Addr, s.Entry, s.Pool = newest.Addresses[s.Name], newest.Entries[s.Name], p.Name
			if found(s) {
				servers = append(servers, s)
			}
		}
	}
	return servers, unread
}

// history returns the other placements by which servers may hold keys, each once, and whether there were still earlier
// ones. During a change of placement they include the one by which keys are not read.
func (p *pool) history() (previous []marker.Placement, more bool) {
	current := p.record()
	if p.changing() {
		all, shares := []placement{{p.router, p.options.Options}}, []*route.Share{p.share}
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

// beginRecords judges the servers that were reached by their records, learns from these what earlier middlewares knew,
// and starts to keep records. routed is as in judge.
func (p *pool) beginRecords(routed bool) {
	if p.records == nil {
		return
	}
	p.records.RespectMarks(p.respectsMarks())
	p.records.Gutter(p.diverts())
	looks := p.records.Looks()
	newest := looks.Newest()
	p.judge(looks, routed)
	if newest != nil && !p.options.inPhases(p.step) {
		p.remember(newest)
	}
	if before := looks.Running(); before != "" && p.replicas() > 1 {
		p.unswept.Store(true)
		if p.options.Writers == WritersOne {
			p.log.Warn("an earlier mcmw did not shut down cleanly: the replicas are compared", "was", before)
		} else { // the usual case when one of several middlewares starts
			p.log.Info("another mcmw is running, or did not shut down cleanly: the replicas are compared", "was",
				before)
		}
	}
	p.runs()
	p.records.Begin(p.toRecord(false), p.servers)
	p.place(p.changing(), p.servers)
}

// runs records that this middleware runs, if it would leave replicas different if it were killed.
func (p *pool) runs() {
	if p.replicas() > 1 {
		host, _ := os.Hostname()
		p.records.Runs(fmt.Sprintf("%s %d %s", host, os.Getpid(), time.Now().UTC().Format(time.RFC3339Nano)))
	}
}

// aftermath is how long a start waits, before servers are cleaned and clients are served, if an earlier middleware did
// not shut down cleanly. Its connections are closed, but a server may still execute requests that it, or a proxy in
// front of it, received on them.
const aftermath = 200 * time.Millisecond

// endRecords records on the servers that the middleware has ended, and that no write is in flight any more, if that is
// so. Otherwise the next start has to compare the replicas.
func (p *pool) endRecords(ctx context.Context, timeout time.Duration) {
	if p.records == nil {
		return
	}
	unsettled := slices.IndexFunc(p.servers, func(s *backend.Server) bool { return !s.Settled() })
	if unsettled >= 0 {
		p.log.Warn("a server may still execute writes that it has not answered: the next start compares the "+
			"replicas", "server", p.servers[unsettled].Name)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	p.records.End(ctx, unsettled < 0 && !p.unswept.Load())
}

// remember adds the placements in a record to the previous placements of p.
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
		f := former{router: router, record: old, recorded: true}
		f.servers = make([]*backend.Server, len(old.Servers))
		for i, server := range old.Servers {
			if at := slices.IndexFunc(p.servers, func(s *backend.Server) bool { return s.Name == server.Name }); at >=
				0 {
				f.servers[i] = p.servers[at]
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

// isAbsent reports whether p is absent, by the records on the servers that were reached: another pool's record was put
// when there was no such pool, unless both were put with the same pools, of which one has another name now.
func (c *core) isAbsent(p *pool) bool {
	own := p.recordedPools()
	return slices.ContainsFunc(c.pools, func(q *pool) bool {
		names := q.recordedPools()
		return len(names) > 0 && !slices.Equal(names, own) && !slices.Contains(names, p.name)
	})
}

// recordedPools returns the names of all pools in the newest record on p's servers that were reached.
func (p *pool) recordedPools() []string {
	if p.records == nil {
		return nil
	}
	if newest := p.records.Looks().Newest(); newest != nil {
		return newest.Pools
	}
	return nil
}

// movedKeys returns a function that reports which keys a server may hold old values of, because they were placed
// elsewhere when newest was recorded, or earlier; nil: there can be none. unknown: it is not known where keys were
// placed, so any key may be old.
func (m *Middleware) movedKeys(t *poolState, server string, newest *marker.Record) (keys func(key []byte) bool,
	unknown bool,
) {
	p := m.current.Load().of(t)
	if p == nil {
		p = t.first.Load()
	}
	if p == nil {
		return nil, false // the pool was removed
	}
	current, wanted := p.record(), p.wantedRecord()
	router, err := wanted.Router()
	if err != nil {
		return nil, true
	}
	var earlier []*route.Router
	switch {
	case t.absent.Load():
		earlier = append(earlier, route.Nowhere())
	case newest.Placement.Equal(&current) && !newest.Changing:
		return nil, false // handled when that became the placement
	}
	for _, old := range append([]marker.Placement{newest.Placement}, newest.Previous...) {
		before, err := old.Router()
		if err != nil {
			return nil, true
		}
		if !wanted.Share.SameNames(old.Share) {
			before = route.Nowhere() // the server holds the value of another key under this name
		}
		if router.Gains(server, before) {
			earlier = append(earlier, before)
		}
	}
	switch {
	case newest.More:
		return nil, true
	case len(earlier) == 0:
		return nil, false
	}
	return func(key []byte) bool {
		return router.Holds(server, key) &&
			slices.ContainsFunc(earlier, func(r *route.Router) bool { return !r.Holds(server, key) })
	}, false
}
