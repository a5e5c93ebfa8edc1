package backend

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"mcmw/internal/keylock"
	"mcmw/internal/marker"
	"mcmw/internal/protocol"
	"mcmw/internal/route"
	"mcmw/internal/stats"
)

// Sweep compares the replicas of all keys and deletes those that differ from the key's first server: a middleware that was
// killed during a write may have left such differences, and no running one would detect them. Used by one goroutine.
type Sweep struct {
	Router  *route.Router
	Servers []*Server // in the router's order
	// Locks are taken, as Owner, for a key that is deleted: no write of it is under way meanwhile.
	Locks  *keylock.Table
	Owner  int32
	Counts *stats.Sweep
	Log    *slog.Logger

	seed     maphash.Seed
	probes   []*Link // by server; nil: not connected
	reported time.Time
	claimed  time.Time
	claim    int // the server that holds SweepKey
}

const (
	// sweepBatch is the number of keys that are compared at a time.
	sweepBatch = 200
	// sweepRate is the most keys per second that are looked at: a few percent of what a memcached serves.
	sweepRate = 20_000
	// sweepReport is the time between two lines in the log.
	sweepReport = 10 * time.Second
	// sweepTries is how often a key is looked at again that another middleware changes during the sweep.
	sweepTries = 5
)

const (
	// claimFor is how long the claim of a sweep that died keeps others from theirs, s; claimEvery is how often a running one
	// renews it.
	claimFor   = 15
	claimEvery = 3 * time.Second
)

// ErrClaimed says that another middleware is comparing the replicas: one at a time is enough load.
var ErrClaimed = errors.New("another middleware compares the replicas")

// errNotUp says that a server can't be compared now because it is not up.
var errNotUp = errors.New("not up")

// Run sweeps once. nil means that all servers were up and everything was compared.
func (w *Sweep) Run(ctx context.Context) error {
	w.seed, w.probes, w.reported = maphash.MakeSeed(), make([]*Link, len(w.Servers)), time.Now()
	defer w.disconnect()
	if err := w.begin(ctx); err != nil {
		return err
	}
	defer w.end()
	var skipped error
	for s, server := range w.Servers {
		if !server.Readable() {
			skipped = fmt.Errorf("%s: %w", server.Name, errNotUp)
			continue
		}
		if err := w.sweep(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", server.Name, err)
		}
	}
	return skipped
}

// begin claims the sweep on the first server that is up.
func (w *Sweep) begin(ctx context.Context) error {
	w.claim = slices.IndexFunc(w.Servers, (*Server).Readable)
	if w.claim < 0 {
		return errNotUp
	}
	p, err := w.probe(ctx, w.claim)
	if err != nil {
		return err
	}
	w.claimed = time.Now()
	if err := p.Send(fmt.Sprintf("ms %s 0 b ME T%d\r\n\r\n", encoded(marker.SweepKey), claimFor)); err != nil {
		return err
	}
	switch line, err := p.Line(); {
	case err != nil:
		return err
	case line == "NS":
		return ErrClaimed
	case line != "HD":
		return Unexpected(line)
	}
	return nil
}

// goOn renews the claim.
func (w *Sweep) goOn(ctx context.Context) error {
	if time.Since(w.claimed) < claimEvery {
		return nil
	}
	w.claimed = time.Now()
	p, err := w.probe(ctx, w.claim)
	if err != nil {
		return err
	}
	return p.Expect(fmt.Sprintf("ms %s 0 b T%d\r\n\r\n", encoded(marker.SweepKey), claimFor), "HD")
}

// end releases the claim; if that fails, the claim expires.
func (w *Sweep) end() {
	if p, err := w.probe(context.Background(), w.claim); err == nil {
		_ = p.Expect(deleteLine(marker.SweepKey), "HD", "NF")
	}
}

// probe returns the connection to server s.
func (w *Sweep) probe(ctx context.Context, s int) (*Link, error) {
	if w.probes[s] == nil {
		p, err := w.Servers[s].Link(ctx)
		if err != nil {
			return nil, err
		}
		w.probes[s] = p
	}
	return w.probes[s], nil
}

func (w *Sweep) disconnect() {
	for _, p := range w.probes {
		if p != nil {
			p.Close()
		}
	}
}

// sweep compares those keys of server s that no earlier server holds.
func (w *Sweep) sweep(ctx context.Context, s int) error {
	keys := make([]string, 0, sweepBatch)
	compare := func() error {
		begin := time.Now()
		err := errors.Join(w.goOn(ctx), w.compare(ctx, keys, s))
		w.Counts.Compared(len(keys), time.Since(begin))
		pause := time.Duration(len(keys))*time.Second/sweepRate - time.Since(begin)
		keys = keys[:0]
		if err == nil && time.Since(w.reported) >= sweepReport {
			w.reported = time.Now()
			c := w.Counts.Snapshot()
			w.Log.Info("the replicas are being compared", "server", w.Servers[s].Name, "keys", c.Keys, "disagreements", c.Disagreements)
		}
		if pause > 0 {
			time.Sleep(pause)
		}
		return err
	}
	err := w.Servers[s].List(ctx, func(item protocol.Dumped) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if keys = append(keys, string(item.Key)); len(keys) < sweepBatch {
			return nil
		}
		return compare()
	})
	if err != nil {
		return err
	}
	return compare()
}

// copyFound is what a server holds of a key.
type copyFound struct {
	held bool
	sum  uint64 // of value and flags
	cas  uint64
}

// compare looks at keys that server s holds, and settles those that differ.
func (w *Sweep) compare(ctx context.Context, keys []string, s int) error {
	asked := make([][]int, len(w.Servers)) // by server: keys
	var room [16]int
	first := make([]bool, len(keys)) // whether s is the first of the servers that hold the key
	for k, key := range keys {
		holders := w.Router.Replicas([]byte(key), room[:0])
		at := slices.Index(holders, s)
		first[k] = at == 0
		for _, h := range holders[:max(at, 0)] {
			asked[h] = append(asked[h], k)
		}
		if at > 0 {
			first[k] = true // unless another one has it
		}
	}
	err := w.ask(ctx, keys, asked, func(_, k int, found copyFound) { first[k] = first[k] && !found.held })
	if err != nil {
		return err
	}
	clear(asked)
	for k, key := range keys {
		if !first[k] {
			continue
		}
		holders := w.Router.Replicas([]byte(key), room[:0])
		for _, h := range holders[slices.Index(holders, s):] {
			asked[h] = append(asked[h], k)
		}
	}
	sums := make([]copyFound, len(keys))
	var differ []int
	err = w.ask(ctx, keys, asked, func(_, k int, found copyFound) {
		switch {
		case !found.held:
		case !sums[k].held:
			sums[k] = found
		case sums[k].sum != found.sum && !slices.Contains(differ, k):
			differ = append(differ, k)
		}
	})
	if err != nil {
		return err
	}
	for _, k := range differ {
		if err := w.settle(ctx, keys[k]); err != nil {
			return err
		}
	}
	return nil
}

// settle looks at key while nobody here writes it, and deletes the copies that differ from that of the first server that
// holds it.
func (w *Sweep) settle(ctx context.Context, key string) error {
	stripe := []uint32{w.Locks.Stripe([]byte(key))}
	taken, _ := w.Locks.LockAll(stripe, w.Owner, true)
	defer w.Locks.Unlock(taken[0])
	holders := w.Router.Replicas([]byte(key), nil)
	asked := make([][]int, len(w.Servers))
	for _, h := range holders {
		asked[h] = []int{0}
	}
	keys := []string{key}
	deleted := false
	for range sweepTries {
		found := make([]copyFound, len(w.Servers))
		if err := w.ask(ctx, keys, asked, func(s, _ int, c copyFound) { found[s] = c }); err != nil {
			return err
		}
		differs := false
		reference := -1
		for _, h := range holders {
			switch {
			case !found[h].held:
			case reference < 0:
				reference = h
			case found[h].sum != found[reference].sum:
				differs = true
				token, flags := metaKey(key)
				request := fmt.Sprintf("md %s%s C%d\r\n", token, flags, found[h].cas)
				if err := w.probes[h].Expect(request, "HD", "NF", "EX"); err != nil {
					return err
				}
			}
		}
		if !differs {
			break
		}
		deleted = true
	}
	if deleted {
		w.Counts.Disagreed()
	}
	return nil
}

// ask looks at the keys in asked on every server that is up, in the order of the servers, and reports what was found.
func (w *Sweep) ask(ctx context.Context, keys []string, asked [][]int, tell func(s, k int, found copyFound)) error {
	for s, list := range asked {
		server := w.Servers[s]
		if len(list) == 0 || !server.Readable() {
			continue
		}
		p, err := w.probe(ctx, s)
		if err != nil {
			return err
		}
		at := 0
		err = p.Pipeline(func(yield func(string) bool) {
			for _, k := range list {
				token, flags := metaKey(keys[k])
				if !yield("mg " + token + flags + " v f c u\r\n") {
					return
				}
			}
		}, func() error {
			found, err := p.copyFound(w.seed)
			tell(s, list[at], found)
			at++
			return err
		})
		if err != nil {
			return fmt.Errorf("%s: %w", server.Name, err)
		}
	}
	return nil
}

// metaKey returns the form of key in a meta command, and the flags that it needs.
func metaKey(key string) (token, flags string) {
	if plainKey(key) {
		return key, ""
	}
	return encoded(key), " b"
}

// copyFound reads the reply to an mg with v, f and c. The value is not kept, whatever its size.
func (p *Link) copyFound(seed maphash.Seed) (found copyFound, err error) {
	line, err := p.Line()
	if err != nil || line == "EN" {
		return found, err
	}
	words := strings.Fields(line)
	if len(words) < 4 || words[0] != "VA" {
		return found, Unexpected(line)
	}
	size, err := strconv.ParseInt(words[1], 10, 63)
	if err != nil {
		return found, Unexpected(line)
	}
	var sum maphash.Hash
	sum.SetSeed(seed)
	for _, word := range words[2:] {
		switch word[0] {
		case 'f':
			_, _ = sum.WriteString(word)
		case 'c':
			if found.cas, err = strconv.ParseUint(word[1:], 10, 64); err != nil {
				return found, Unexpected(line)
			}
		}
	}
	if err := p.Value(&sum, size); err != nil {
		return found, err
	}
	found.held, found.sum = true, sum.Sum64()
	return found, nil
}
