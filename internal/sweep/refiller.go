package sweep

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"mcmw/internal/backend"
	"mcmw/internal/link"
	"mcmw/internal/marker"
	"mcmw/internal/protocol"
	"mcmw/internal/route"
)

// Refiller copies to a server what the other holders of its keys hold (Refill). It is used by one goroutine.
//
//	claim on the target ---> for each other server: list its keys --> look, fetch, add, a window at a time
//	                                                   '--> check each window, Settle after it was added --> marker.RefilledKey on the target
//
// While copies are on the target that were not checked, a mark of this middleware says that nobody may read it. If this
// middleware ends meanwhile, another one flushes the target, as it does for every mark whose owner is gone. So the
// claim only avoids that two middlewares do the same work. One that fails deletes the copies that it has not checked: a
// flush would also delete the others, and the claim of the next middleware, which would then flush the target in turn.
type Refiller struct {
	Router  *route.Router
	Servers []*backend.Server // in the router's order
	// Owner is the name of this middleware, which no other has.
	Owner string
	// Rate is the largest number of keys looked at per second.
	Rate int
	// Replicas is how many servers hold each key.
	Replicas int
	// Current reports whether keys are still placed by Router on Servers, and Rate is still in force.
	Current func() bool
	// Settle is the time after which no write that was under way can reach a server any more.
	Settle time.Duration
	Log    *slog.Logger

	session
	target   int
	doubted  bool            // a source was not read when copies from it were checked
	without  time.Time       // since when a server has no source that is read; zero: each has, or none lacks keys
	pending  []pendingRefill // oldest first
	progress RefillProgress
	lease    *lease // on the target
	reported time.Time
}

// RefillProgress is the progress of refilling a server, in the form that the server holds.
type RefillProgress struct {
	Owner string `json:"owner"`
	// Listed is how many of the Items on the other servers have been looked at, Copied the number of keys copied.
	Listed uint64 `json:"listed"`
	Items  uint64 `json:"items"`
	Copied uint64 `json:"copied"`
}

// String returns the progress for operators.
func (p RefillProgress) String() string {
	return fmt.Sprintf("it is refilled by %s: %d of %d keys on the other servers looked at, %d copied", p.Owner,
		min(p.Listed, p.Items), p.Items, p.Copied)
}

// pendingRefill is a window of copies that wait for their check.
type pendingRefill struct {
	items       []*Refill
	read, added time.Time
}

// ErrReplaced says that the Refiller's fields do not hold any more.
var ErrReplaced = errors.New("the placement of keys or the rate has changed")

// ErrSource says that a server that the target is refilled from is not read any more, or has lost its keys.
var ErrSource = errors.New("a server that it is refilled from is not read, or has lost its keys")

// errRead says that others may read the target.
var errRead = errors.New("its mark is not in force")

// errWiped says that the target has lost the claim, and with it what was copied.
var errWiped = errors.New("the server was emptied while it was refilled")

// Full says of a server whether it holds all keys that it should hold, as far as is known.
type Full uint8

// The values of Full.
const (
	FullUnknown Full = iota // the server does not answer
	FullNo
	FullYes
)

// Look asks all servers that are not down whether they are full.
func (f *Refiller) Look(ctx context.Context) (full []Full) {
	f.begin()
	full = make([]Full, len(f.Servers))
	for s, server := range f.Servers {
		if server.Down() {
			f.hangUp(s)
			continue
		}
		switch holds, err := f.session.full(ctx, s); {
		case err != nil:
			f.hangUp(s)
		case holds:
			full[s] = FullYes
		default:
			full[s] = FullNo
		}
	}
	return full
}

// Source says whether a server can be refilled.
type Source uint8

// The values of Source.
const (
	SourceNone  Source = iota // no
	SourceSoon                // perhaps soon: a holder of its keys that is not down may be read again
	SourceReady               // yes: each of its keys has another holder that is read, and one of these servers is full
)

// Source returns whether server target can be refilled, if full is what the servers are. For a holder that is not down
// it says SourceSoon for no longer than Settle.
func (f *Refiller) Source(target int, full []Full) Source {
	if f.sourced(target, full, (*backend.Server).Readable) {
		f.without = time.Time{}
		return SourceReady
	}
	if f.without.IsZero() {
		f.without = time.Now()
	}
	if time.Since(f.without) < f.Settle &&
		f.sourced(target, full, func(s *backend.Server) bool { return !s.Down() }) {
		return SourceSoon
	}
	return SourceNone
}

// sourced reports whether each key of server target has another holder that counts, and one of those is full.
func (f *Refiller) sourced(target int, full []Full, counts func(*backend.Server) bool) bool {
	away, source := 0, false
	for s, server := range f.Servers {
		switch {
		case s == target:
		case !counts(server):
			away++
		case full[s] == FullYes:
			source = true
		}
	}
	return source && away <= f.Replicas-2
}

// Declare says on server s that it is full.
func (f *Refiller) Declare(ctx context.Context, s int) error {
	l, err := f.link(ctx, s)
	if err == nil {
		_, err = l.Add(marker.RefilledKey, []byte(f.Owner), 0)
	}
	if err != nil {
		f.hangUp(s)
	}
	return err
}

func (f *Refiller) begin() {
	if f.lines == nil {
		f.session = newSession(f.Servers)
	}
}

// Close closes the connections; f may be nil.
func (f *Refiller) Close() {
	if f != nil {
		f.disconnect()
	}
}

// Progress returns the progress of the middleware that refills server s.
func (f *Refiller) Progress(ctx context.Context, s int) (p RefillProgress, ok bool) {
	l, err := f.link(ctx, s)
	if err != nil {
		return p, false
	}
	value, _, err := l.Get(marker.RefillKey)
	if err != nil {
		f.hangUp(s)
	}
	return p, err == nil && json.Unmarshal(value, &p) == nil
}

// Run refills server target, which this middleware has marked. It returns ErrClaimed if another middleware does so. If
// it fails when copies were not checked, these are deleted, or the target is flushed, before anybody reads it. After
// ErrReplaced and ErrSource it may be tried again at once.
func (f *Refiller) Run(ctx context.Context, target int) (err error) {
	f.begin()
	f.target, f.pending, f.progress, f.doubted = target, nil, RefillProgress{Owner: f.Owner}, false
	server := f.Servers[target]
	f.reported = time.Now()
	if f.lease, _, err = f.takeOn(ctx, target, marker.RefillKey, f.value()); err != nil {
		if !errors.Is(err, ErrClaimed) {
			f.hangUp(target)
		}
		return err
	}
	if !server.BeginCopying() {
		return f.named(target, errRead)
	}
	defer func() {
		tookBack := err != nil && len(f.pending) > 0
		if tookBack && f.takeBack(err) != nil {
			tookBack = false
			server.MissedAll(fmt.Errorf("keys were copied to it and could not be checked: %w", err))
		}
		if !errors.Is(err, errWiped) && (tookBack || errors.Is(err, ErrSource)) {
			f.lease.release(ctx, nil, 0)
		}
		if err != nil {
			f.disconnect()
		}
		server.EndCopying()
	}()
	if err = f.copyAll(ctx); err != nil {
		return err
	}
	if err = f.settle(ctx, true); err != nil {
		return err
	}
	if err = f.renew(ctx, true); err != nil { // nothing was lost meanwhile
		return err
	}
	if f.doubted || !f.sourced(target, f.Look(ctx), (*backend.Server).Readable) {
		return ErrSource
	}
	if err = f.Declare(ctx, target); err != nil {
		return f.named(target, err)
	}
	f.lease.release(ctx, nil, 0)
	f.Log.Info("a server was refilled from the other holders of its keys", "server", server.Name, "keys",
		f.progress.Copied)
	return nil
}

// takeBack deletes the copies that were not checked, after failed. It returns an error if the connection that they were
// sent on is closed: the server may still carry out what it got there. A middleware that has taken the claim may have
// found the copies.
func (f *Refiller) takeBack(failed error) error {
	l := f.lines[f.target].Open
	if l == nil {
		return failed
	}
	if errors.Is(failed, errWiped) {
		f.Servers[f.target].Distrust()
	}
	return l.DeleteAll(func(yield func(string) bool) {
		for _, p := range f.pending {
			for _, r := range p.items {
				if !yield(string(r.Key.Key(nil))) {
					return
				}
			}
		}
	})
}

// copyAll copies what the other servers hold and the target lacks.
func (f *Refiller) copyAll(ctx context.Context) error {
	var sources []int
	for s := range f.Servers {
		if s == f.target || !f.Servers[s].Readable() {
			continue
		}
		_, items, err := f.clock(ctx, s)
		if err != nil {
			return f.named(s, err)
		}
		f.progress.Items += items
		sources = append(sources, s)
	}
	if len(f.Servers)-1-len(sources) > f.Replicas-2 {
		return ErrSource
	}
	for _, s := range sources {
		if err := f.copyOf(ctx, s); err != nil {
			return f.named(s, err)
		}
	}
	return nil
}

// copyOf copies what server s holds and the target lacks.
func (f *Refiller) copyOf(ctx context.Context, s int) error {
	var room []int
	return inWindows(ctx, f.Servers[s], f.Rate, func(item protocol.Dumped) (chosen *Refill, size int64) {
		f.progress.Listed++
		room = f.Router.Replicas(item.Key, room[:0])
		if !slices.Contains(room, s) || !slices.Contains(room, f.target) {
			return nil, 0
		}
		return &Refill{Key: link.Key(string(item.Key)), Source: s, Target: f.target}, item.Size
	}, func(items []*Refill) (int64, error) {
		err := f.add(ctx, items)
		if err == nil {
			err = f.settle(ctx, false)
		}
		if err == nil {
			err = f.renew(ctx, false)
		}
		return 0, err
	})
}

// add takes items to the step in which their copies are pending.
func (f *Refiller) add(ctx context.Context, items []*Refill) error {
	if !f.Current() {
		return ErrReplaced
	}
	read := time.Now()
	for open := slices.Clone(items); len(open) > 0; {
		if slices.ContainsFunc(open, (*Refill).Adds) && !f.Servers[f.target].AwaitMarked(ctx) {
			return errRead
		}
		if err := step(ctx, &f.session, open); err != nil {
			// what was sent may be carried out
			f.pending = append(f.pending, pendingRefill{items, read, time.Now()})
			return err
		}
		open = slices.DeleteFunc(open, func(r *Refill) bool { return !r.Next() })
	}
	items = slices.DeleteFunc(items, func(r *Refill) bool { return !r.Pending() })
	if len(items) > 0 {
		f.pending = append(f.pending, pendingRefill{items, read, time.Now()})
	}
	return nil
}

// settle checks the copies that were added Settle ago; all: it waits for those that are more recent.
func (f *Refiller) settle(ctx context.Context, all bool) error {
	for len(f.pending) > 0 {
		first := &f.pending[0]
		for early := f.Settle - time.Since(first.added); early > 0; early = f.Settle - time.Since(first.added) {
			if !all {
				return nil
			}
			backend.Pause(ctx, min(early, claimEvery))
			if err := errors.Join(ctx.Err(), f.renew(ctx, false)); err != nil {
				return err
			}
		}
		waited := int64(time.Since(first.read) / time.Second)
		for _, r := range first.items {
			r.Check(waited)
		}
		copied := 0
		for open := slices.Clone(first.items); len(open) > 0; {
			if err := step(ctx, &f.session, open); err != nil {
				return err
			}
			open = slices.DeleteFunc(open, func(r *Refill) bool {
				if !f.Servers[r.Source].Readable() {
					r.Doubt()
					f.doubted = true
				}
				more := r.Next()
				if r.Outcome() == TransferCopied {
					copied++
				}
				return !more
			})
		}
		f.progress.Copied += uint64(copied)
		f.Servers[f.target].Refilling(f.progress.String(), copied)
		f.pending = f.pending[1:]
	}
	return nil
}

func (f *Refiller) value() []byte {
	value, _ := json.Marshal(f.progress) // never fails
	return value
}

// renew renews the claim if it is time, or if now is true. It fails if somebody has emptied the target, or the claim
// has expired.
func (f *Refiller) renew(ctx context.Context, now bool) error {
	if !f.lease.due() && !now {
		return nil
	}
	l, err := f.link(ctx, f.target)
	if err != nil {
		return f.named(f.target, err)
	}
	value, _, err := l.Get(marker.RefillKey)
	var held RefillProgress
	switch {
	case err != nil:
		f.hangUp(f.target)
		return f.named(f.target, err)
	case json.Unmarshal(value, &held) != nil, held.Owner != f.Owner:
		return f.named(f.target, errWiped)
	}
	f.Servers[f.target].Refilling(f.progress.String(), 0)
	if time.Since(f.reported) >= reportEvery {
		f.reported = time.Now()
		f.Log.Info("a server is being refilled", "server", f.Servers[f.target].Name, "looked_at", f.progress.Listed,
			"of", f.progress.Items, "copied", f.progress.Copied)
	}
	return f.lease.renew(ctx, f.value, true)
}
