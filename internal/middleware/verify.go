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

// Verification says how Verify compares, and whom it tells.
type Verification struct {
	// Values: the values of all keys are compared, not only where versions differ or mean nothing.
	Values bool
	// Found is called for every key that differs.
	Found func(sweep.Difference) error
	// Progress is called while keys are compared.
	Progress func(sweep.Progress)
}

// Verify compares the replicas on the servers of o, once and now, and changes nothing. It fails if a server can't be compared.
func Verify(ctx context.Context, o Options, v Verification) (sweep.Progress, error) {
	o = o.withDefaults()
	router, err := o.route()
	if err != nil {
		return sweep.Progress{}, err
	}
	access, err := o.Security.open(o.Log)
	if err != nil {
		return sweep.Progress{}, err
	}
	s := sweep.Sweep{
		Router: router, Rate: o.SweepRate, Values: v.Values, Found: v.Found, Progress: v.Progress, Counts: new(stats.Sweep), Log: o.Log,
	}
	changes := new(atomic.Uint32)
	var unreached []error
	for _, server := range router.Servers() {
		b := backend.NewServer(server, backend.Options{ServerOptions: o.ServerOptions, Changes: changes, Access: access.servers, Log: o.Log})
		if err := b.Reach(ctx); err != nil {
			unreached = append(unreached, fmt.Errorf("%s: %w", server.Name, err))
		}
		s.Servers = append(s.Servers, b)
	}
	if len(unreached) > 0 {
		return sweep.Progress{}, errors.Join(unreached...)
	}
	return s.Verify(ctx)
}
