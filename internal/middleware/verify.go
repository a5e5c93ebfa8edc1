package middleware

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"mcmw/internal/backend"
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
	changes := new(atomic.Uint32)
	var unreached []error
	for i, p := range o.Pools {
		s := &sweep.Sweep{
			Router: router.Pools()[i].Alone(), Rate: o.SweepRate, Values: v.Values, Found: v.Found,
			Progress: v.Progress, Counts: new(stats.Sweep), Log: o.Log,
		}
		for _, server := range p.Servers {
			b := backend.NewServer(server,
				backend.Options{ServerOptions: p.ServerOptions, Changes: changes, Access: access.to(&p), Log: o.Log})
			if err := b.Reach(ctx); err != nil {
				unreached = append(unreached, fmt.Errorf("%s: %w", server.Name, err))
			}
			s.Servers = append(s.Servers, b)
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
		p.Keys, p.Differ = p.Keys+all.Keys, p.Differ+all.Differ
		all = p
	}
	return all, nil
}
