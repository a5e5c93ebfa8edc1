package middleware

import (
	"context"
	"errors"
	"time"

	"mcmw/internal/backend"
)

const (
	// sweepOwner is the sweep's owner number for key locks; workers' numbers are far lower.
	sweepOwner = 1 << 30
	// sweepAgain is how long after an incomplete sweep the next one starts.
	sweepAgain = time.Second
)

// sweep compares the replicas until all were compared once, or ctx is done.
func (m *Middleware) sweep(ctx context.Context) {
	defer m.swept.Runs(false)
	begin := time.Now()
	reported := ""
	for {
		p := m.pool.Load()
		s := backend.Sweep{Router: p.router, Servers: p.servers, Locks: m.locks, Owner: sweepOwner, Counts: &m.swept, Log: p.options.Log}
		err := s.Run(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil && m.pool.Load() == p:
			c := m.swept.Snapshot()
			m.unswept.Store(false)
			p.options.Log.Info("the replicas were compared", "keys", c.Keys, "disagreements", c.Disagreements,
				"took", time.Since(begin).Round(time.Millisecond))
			return
		case errors.Is(err, backend.ErrClaimed):
		case errors.Is(err, backend.ErrNoList):
			p.options.Log.Warn("the replicas cannot be compared: what a middleware that was killed has left stays until it is overwritten", "error", err)
			return
		case err != nil && err.Error() != reported:
			reported = err.Error()
			p.options.Log.Warn("the replicas could not all be compared, and will be", "error", err)
		}
		// Wait for the server that prevented a comparison: comparing the others again and again would find nothing.
		for first := true; first || !m.pool.Load().meets(ReadyAll); first = false {
			select {
			case <-ctx.Done():
				return
			case <-time.After(sweepAgain):
			}
		}
	}
}
