package middleware

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"

	"mcmw/internal/backend"
	"mcmw/internal/route"
	"mcmw/internal/stats"
	"mcmw/internal/sweep"
)

// Verification says how Verify compares replicas, and has the functions that it calls.
type Verification struct {
	// Values: the values of all keys are compared, not only those whose versions don't show that they are equal.
	Values bool
	// Found is called for every key whose copies differ.
	Found func(sweep.Difference) error
	// Progress is called while keys are compared.
	Progress func(sweep.Progress)
}

// Verify compares the replicas on the servers of o once, and changes nothing. It fails if a server can't be compared.
func Verify(ctx context.Context, o Options, v Verification) (sweep.Progress, error) {
	o = o.withDefaults()
	router, err := o.route()
	if err != nil {
		return sweep.Progress{}, err
	}
	access, err := o.access()
	if err != nil {
		return sweep.Progress{}, err
	}
	var sweeps []*sweep.Sweep // by pool
	var unreached []error
	for i, p := range o.Pools {
		s := &sweep.Sweep{
			Router: router.Pools()[i].Alone(), Rate: o.SweepRate, Values: v.Values, Found: v.Found,
			Progress: v.Progress, Counts: new(stats.Sweep), Log: o.Log,
		}
		s.Servers = p.toAsk(access, nil, o.Log)
		for _, b := range s.Servers {
			if err := b.Reach(ctx); err != nil {
				unreached = append(unreached, fmt.Errorf("%s: %w", b.Name, err))
			}
		}
		sweeps = append(sweeps, s)
	}
	if len(unreached) > 0 {
		return sweep.Progress{}, errors.Join(unreached...)
	}
	var all sweep.Progress
	for _, s := range sweeps {
		p, err := s.Verify(ctx)
		if err != nil {
			return p, err
		}
		p.Keys, p.Differ, p.Of = p.Keys+all.Keys, p.Differ+all.Differ, p.Of+all.Of
		all = p
	}
	return all, nil
}

// toAsk returns the pool's servers for a program that serves no clients. records may be nil.
func (o *PoolOptions) toAsk(a access, records *backend.Records, log *slog.Logger) (servers []*backend.Server) {
	for _, server := range o.Servers {
		servers = append(servers, backend.NewServer(server, backend.Options{
			ServerOptions: o.ServerOptions, Changes: new(atomic.Uint32), Records: records, Access: a.to(o), Log: log,
		}))
	}
	return servers
}

// Lacking returns the names of the servers of o that do not answer, or do not say that they hold all their keys. Those
// of pools with one replica are left out, since no other server has their keys. It fails if no server is ever refilled.
func Lacking(ctx context.Context, o Options) (names []string, err error) {
	o = o.withDefaults()
	router, err := o.route()
	if err != nil {
		return nil, err
	}
	access, err := o.access()
	if err != nil {
		return nil, err
	}
	single := func(pool *route.Group) bool { return pool.N() == 1 }
	pools := router.Pools()
	switch {
	case o.RefillRate == 0:
		return nil, errors.New("no server is refilled, because refill-rate is 0")
	case !slices.ContainsFunc(pools, func(p *route.Group) bool { return !single(p) }):
		return nil, errors.New("no server is refilled, because each key is on one server; expected replicas above 1")
	}
	for i := range o.Pools {
		if single(pools[i]) {
			continue
		}
		f := sweep.Refiller{Servers: o.Pools[i].toAsk(access, nil, o.Log)}
		for s, full := range f.Look(ctx) {
			if full != sweep.FullYes {
				names = append(names, f.Servers[s].Name)
			}
		}
		f.Close()
	}
	return names, nil
}
