package sweep

import (
	"context"
	"time"

	"mcmw/internal/marker"
)

// Copies that are missing are not put there key by key: what is stored while clients read the server can bring back
// what they have deleted. A server that lacks many is refilled as if it had returned without its keys (Refiller), so
// that nobody reads it meanwhile.

const (
	// A server is refilled if it lacks a share of at least 1/lacksShare of the keys that were compared, and lacksLeast.
	lacksShare = 100
	lacksLeast = 10
	// fillLook is the time between two looks whether the server is refilled.
	fillLook = 500 * time.Millisecond
)

// tally is how many of a server's keys were compared, and how many copies of them it lacks.
type tally struct{ keys, lacks uint64 }

// count counts the copies of a key, in the order of holders.
func (w *Sweep) count(holders []int, copies []Copy) {
	for h, s := range holders {
		w.tallies[s].keys++
		if !copies[h].Held {
			w.tallies[s].lacks++
		}
	}
}

// fillUp has server s refilled if it lacks too many copies, but not within allEvery sweeps again. A server that evicts
// lacks copies for that reason, and would do so again. r becomes the server's record; last is the one before, or nil.
func (w *Sweep) fillUp(ctx context.Context, s int, r, last *record, every time.Duration) error {
	l, err := w.link(ctx, s)
	if err != nil {
		return err
	}
	told, err := l.Stats("", "time", "evictions")
	if err != nil {
		return err
	}
	if last == nil {
		last = new(record)
	}
	evicted, ok := told["evictions"]
	r.Evictions, r.Filled = evicted, last.Filled
	n, now := w.tallies[s], int64(told["time"])
	switch {
	case n.lacks < lacksLeast, n.lacks*lacksShare < n.keys, !ok, evicted != last.Evictions:
	case r.Filled != 0 && now < r.Filled+int64(allEvery*every/time.Second):
	case w.Fills == nil || !w.Fills():
	default:
		filled, err := w.fill(ctx, s)
		if filled {
			r.Filled = now
		}
		return err
	}
	return nil
}

// fill makes the middlewares refill server s, if all servers are full now, and waits until they have. It returns false
// if they don't.
func (w *Sweep) fill(ctx context.Context, s int) (filled bool, err error) {
	for other := range w.Servers {
		if full, err := w.full(ctx, other); err != nil || !full || !w.Servers[other].Readable() {
			return false, err
		}
	}
	l, err := w.link(ctx, s)
	if err != nil {
		return false, err
	}
	w.Log.Info("a server lacks copies of keys that others hold, and is refilled from them", "server", w.Servers[s].Name,
		"lacks", w.tallies[s].lacks, "of", w.tallies[s].keys)
	if err := l.Delete(marker.RefilledKey); err != nil {
		return false, err
	}
	for full := false; !full; {
		rest(ctx, fillLook)
		if !w.Fills() {
			return false, ctx.Err()
		}
		if full, err = w.full(ctx, s); err == nil {
			err = w.lease.renew(ctx, func() []byte { return nil }, false)
		}
		if err != nil || ctx.Err() != nil {
			return false, err
		}
	}
	return true, ctx.Err()
}
