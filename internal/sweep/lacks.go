package sweep

import (
	"context"
	"slices"
	"time"

	"mcmw/internal/backend"
	"mcmw/internal/marker"
)

// Copies that are missing are not put there key by key: what is stored while clients read the server can bring back
// what they have deleted. A server that lacks many is refilled as if it had returned without its keys (Refiller), so
// that nobody reads it meanwhile. One that lacks any, in two sweeps in a row, is refilled too, unless the second is
// that of a start: those follow each other within seconds during an upgrade. A refill looks at all keys of the other
// holders, at the rate of a refill, and copies only what lacks: of 100,000 keys on three servers, 50 of which one
// lacked, it took 11.5 s. So it is not done again before unreadShare times as long is over: a server is unread for that
// at most 1 % of the time.

const (
	// A server is refilled if it lacks a share of at least 1/lacksShare of the keys that were compared, and lacksLeast.
	lacksShare = 100
	lacksLeast = 10
	// unreadShare is how many times as long as a refill takes must pass until the next one.
	unreadShare = 100
	// lacksKept is how many keys that a server lacks are looked at again at the end of a sweep: a key that was being
	// written, deleted or evicted when it was compared is not lacking.
	lacksKept = 100
	// fillLook is the time between two looks whether the server is refilled.
	fillLook = 500 * time.Millisecond
)

// tally is how many of a server's keys were compared, how many copies of them it lacks, and some of those keys.
type tally struct {
	keys, lacks uint64
	some        []*listed
}

// count counts the copies of a key.
func (w *Sweep) count(item *listed) {
	for h, s := range item.holders {
		t := &w.tallies[s]
		if t.keys++; !item.copies[h].Held {
			if t.lacks++; len(t.some) < lacksKept {
				t.some = append(t.some, item)
			}
		}
	}
}

// stillLacks reports whether server s still lacks a copy that another holder still has.
func (w *Sweep) stillLacks(ctx context.Context, s int) (bool, error) {
	some := w.tallies[s].some
	_, err := w.look(ctx, some, false, func(int, int) bool { return true })
	return slices.ContainsFunc(some, func(item *listed) bool {
		return item.copies[item.at].Held && !item.copies[slices.Index(item.holders, s)].Held
	}), err
}

// fillUp has server s refilled if it lacks too many copies, or some for the second time, but not within allEvery sweeps
// again. A server that evicts lacks copies for that reason, and would do so again. r becomes the server's record; last
// is the one before, or nil.
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
	r.Evictions, r.Filled, r.Took = evicted, last.Filled, last.Took
	if r.Lacks, err = w.stillLacks(ctx, s); err != nil {
		return err
	}
	n, now := w.tallies[s], int64(told["time"])
	many := n.lacks >= lacksLeast && n.lacks*lacksShare >= n.keys
	switch {
	case !many && !(r.Lacks && last.Lacks && every > 0), !ok, evicted != last.Evictions:
	case r.Filled != 0 && now < r.Filled+max(int64(allEvery*every/time.Second), unreadShare*r.Took):
	case w.Fills == nil || !w.Fills():
	default:
		begun := time.Now()
		filled, err := w.fill(ctx, s)
		if filled {
			r.Filled, r.Took, r.Lacks = now, int64(time.Since(begun)/time.Second)+1, false
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
		backend.Pause(ctx, fillLook)
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
