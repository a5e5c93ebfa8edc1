package sweep

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"time"

	"mcmw/internal/backend"
	"mcmw/internal/link"
	"mcmw/internal/marker"
	"mcmw/internal/protocol"
	"mcmw/internal/route"
)

// Copier copies the keys of a pool to another pool, or keys that move within a pool to their new holders. Run does this
// in rounds through all keys: a key that changes while it is copied is copied in the next round. Fill copies single
// keys. A Copier is used by one goroutine.
type Copier struct {
	// Name identifies the migration, or the change of the pool's servers.
	Name string
	// From says which servers a key is read from, and To which servers it is copied to. Servers are in From's order,
	// Targets in To's. To is nil if keys move within a pool: then From is the pool's Router in phase route.Copy. There
	// keys are copied if all servers that hold them can be read.
	From, To         *route.Router
	Servers, Targets []*backend.Server
	// Awaits reports whether keys that move within a pool must not be left out because server s, which is stale, is not
	// read: then the round fails. Those of servers that are down are left out.
	Awaits func(s int) bool
	// Selects reports whether a key is to be copied; nil: all are.
	Selects func(key []byte) bool
	// Rate is the largest number of keys looked at per second.
	Rate int
	// Hold is how long a copy lives that has not been confirmed; see Transfer.
	Hold time.Duration
	// Pause is the time between two rounds through all keys.
	Pause time.Duration
	// Report is called with the progress of Run, or with that of another middleware that has the claim.
	Report func(CopyProgress)
	// Copied is called with the number of keys that this Copier has copied.
	Copied func(keys int)
	// Failed is called by Fill with the error that kept it from copying; "": there was none.
	Failed func(why string)
	Log    *slog.Logger

	session  session // first Servers, then Targets
	lease    *lease
	progress CopyProgress
	began    time.Time // when the round began
	warned   bool      // the log says that a server refuses a key
	unread   int       // a server whose keys were left out in this round though they must not be; -1: none
}

// CopyProgress is the progress of copying, in the form that the servers hold.
type CopyProgress struct {
	Name string `json:"name"`
	// Round is the number of the round through all keys, from 1. Listed is how many of the Items on the servers have
	// been looked at in it.
	Round  int    `json:"round"`
	Listed uint64 `json:"listed"`
	Items  uint64 `json:"items"`
	// Copied is the number of keys copied so far.
	Copied uint64 `json:"copied"`
	// Rate is how many keys are looked at per second in this round.
	Rate float64 `json:"rate"`
	// Complete: a round has ended, so every key has been looked at.
	Complete bool `json:"complete"`
	// Left is the number of keys of this round that were not copied, because clients kept changing them, because not
	// all servers that they are copied from hold the same version, or because they are too large for the targets.
	Left uint64 `json:"left,omitempty"`
}

// valuesAtOnce bounds the bytes of values that are read before they are stored, by the sizes in the server's list.
const valuesAtOnce = 1 << 20

// Run copies until ctx ends. It returns ErrClaimed if another middleware copies. If keep returns more than 0 at the
// end, the progress stays on the servers for that time.
func (c *Copier) Run(ctx context.Context, keep func() time.Duration) error {
	c.begin()
	defer c.session.disconnect()
	c.progress = CopyProgress{Name: c.Name}
	var other []byte
	var err error
	if c.lease, other, err = c.session.take(ctx, c.Servers, marker.MigrationKey, c.value()); err != nil {
		if p, ok := decodeProgress(other); ok && p.Name == c.Name {
			c.Report(p)
		}
		return err
	}
	defer func() { c.lease.release(ctx, c.value(), keep()) }()
	for {
		c.progress.Round++
		err := c.round(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		c.progress.Complete = true
		if err := c.report(ctx); err != nil {
			return err
		}
		for until := time.Now().Add(c.Pause); time.Now().Before(until); {
			if !backend.Pause(ctx, min(time.Until(until), claimEvery)) {
				return nil
			}
			if err := c.report(ctx); err != nil && ctx.Err() == nil {
				return err
			}
		}
	}
}

// value returns the progress as servers hold it.
func (c *Copier) value() []byte {
	value, _ := json.Marshal(c.progress) // never fails
	return value
}

// decodeProgress decodes the progress that a server holds.
func decodeProgress(value []byte) (p CopyProgress, ok bool) {
	ok = json.Unmarshal(value, &p) == nil
	return p, ok
}

// RecallProgress returns the progress of the migration called name that the servers hold; ok is false if they hold
// none.
func RecallProgress(ctx context.Context, servers []*backend.Server, name string) (p CopyProgress, ok bool) {
	home := slices.IndexFunc(servers, (*backend.Server).Readable)
	if home < 0 {
		return p, false
	}
	_ = servers[home].Talk(ctx, func(l *link.Link) error {
		value, _, err := l.Get(marker.MigrationKey)
		p, ok = decodeProgress(value)
		return err
	})
	return p, ok && p.Name == name
}

// report reports the progress, and renews the lease, with the progress, if that is due.
func (c *Copier) report(ctx context.Context) error {
	c.Report(c.progress)
	return c.lease.renew(ctx, c.value, c.progress.Complete)
}

// round looks at all keys once, and copies those that are missing or different.
func (c *Copier) round(ctx context.Context) error {
	c.began = time.Now()
	c.progress.Listed, c.progress.Items, c.progress.Left, c.unread = 0, 0, 0, -1
	for s := range c.Servers {
		switch readable := c.Servers[s].Readable(); {
		case !readable && c.mayLeaveOut(s):
			continue
		case !readable:
			return c.session.named(s, ErrNotUp)
		}
		_, items, err := c.session.clock(ctx, s)
		if err != nil {
			return c.session.named(s, err)
		}
		c.progress.Items += items
	}
	for s := range c.Servers {
		if c.To == nil && !c.Servers[s].Readable() {
			if !c.mayLeaveOut(s) {
				c.unread = s
			}
			continue
		}
		if err := c.copyOf(ctx, s); err != nil {
			return c.session.named(s, err)
		}
	}
	if c.unread >= 0 {
		return c.session.named(c.unread, ErrNotUp)
	}
	return nil
}

// mayLeaveOut reports whether the keys that server s holds may be left out while it is not read.
func (c *Copier) mayLeaveOut(s int) bool { return c.To == nil && (c.Servers[s].Down() || !c.Awaits(s)) }

// holders appends to from the servers that key is copied from, and to to those that it is copied to. It returns nothing
// if key is not to be copied, or can't be.
func (c *Copier) holders(key []byte, from, to []int) (olds, news []int) {
	if c.To != nil {
		from, to = c.From.Replicas(key, from), c.To.Replicas(key, to)
		for i := range to {
			to[i] += len(c.Servers)
		}
		return from, to
	}
	in, key := c.From.At(key)
	from, to = in.With(route.Store, route.After, key, from), in.With(route.Store|route.After, 0, key, to)
	unread := slices.IndexFunc(from, func(s int) bool { return !c.Servers[s].Readable() })
	if len(to) > 0 && unread >= 0 && !c.mayLeaveOut(from[unread]) {
		c.unread = from[unread]
	}
	if len(to) == 0 || unread >= 0 || slices.ContainsFunc(to, func(s int) bool { return c.Servers[s].Down() }) {
		return nil, nil
	}
	return from, to
}

// copyOf copies the keys whose first server is s.
func (c *Copier) copyOf(ctx context.Context, s int) error {
	var from, to []int // reused
	return inWindows(ctx, c.Servers[s], c.Rate, func(item protocol.Dumped) (chosen *Transfer, size int64) {
		c.progress.Listed++
		if c.Selects != nil && !c.Selects(item.Key) {
			return nil, 0
		}
		if from, to = c.holders(item.Key, from[:0], to[:0]); len(from) == 0 || from[0] != s {
			return nil, 0
		}
		return &Transfer{
			Key: link.Key(string(item.Key)), Source: s, Others: slices.Clone(from[1:]), To: slices.Clone(to),
			Hold: int64(c.Hold / time.Second),
		}, item.Size
	}, func(items []*Transfer) (int64, error) {
		if err := c.transfer(ctx, items); err != nil {
			return 0, err
		}
		return 0, c.report(ctx)
	})
}

// inWindows lists the keys of server, and calls do with what choose made of them, unless that is nil: a window at a
// time, and at most rate keys per second. size is that of a value which do will read, and read the bytes of others that
// it has read. While inWindows waits, it calls do without items, which can renew a lease. It ends with the first error
// of do, or if ctx ends.
func inWindows[T any](ctx context.Context, server *backend.Server, rate int,
	choose func(protocol.Dumped) (chosen *T, size int64), do func(items []*T) (read int64, err error),
) error {
	var items []*T
	var sizes int64
	all := func() error {
		begin := time.Now()
		read, err := do(items)
		keys := int64(len(items)) + (sizes+read)/valueWeight
		items, sizes = nil, 0
		next := begin.Add(time.Duration(keys) * time.Second / time.Duration(rate))
		for pause := time.Until(next); err == nil && pause > 0; pause = time.Until(next) {
			if backend.Pause(ctx, min(pause, claimEvery)) {
				_, err = do(nil)
			}
		}
		return errors.Join(err, ctx.Err())
	}
	err := server.List(ctx, true, func(item protocol.Dumped) error {
		chosen, size := choose(item)
		if chosen == nil {
			return nil
		}
		items, sizes = append(items, chosen), sizes+size
		if len(items) < window && sizes < valuesAtOnce {
			return nil
		}
		return all()
	})
	if err != nil {
		return err
	}
	return all()
}

// transfer takes all transfers to their ends, step by step.
func (c *Copier) transfer(ctx context.Context, items []*Transfer) error {
	for open := slices.Clone(items); len(open) > 0; {
		if err := step(ctx, &c.session, open); err != nil {
			return err
		}
		open = slices.DeleteFunc(open, func(t *Transfer) bool { return !t.Next() })
	}
	copied := 0
	for _, t := range items {
		switch t.Outcome() {
		case TransferCopied:
			copied++
		case TransferMoving, TransferApart:
			c.progress.Left++
		case TransferRefused:
			c.progress.Left++
			if !c.warned {
				c.warned = true
				c.Log.Warn("keys are not copied, because a server of the new pool refuses them: they are too large, "+
					"or it has no memory for them; set memcached's option -I to the same item size in both pools, "+
					"and -m to enough memory", "to", c.Name)
			}
		}
	}
	c.progress.Copied += uint64(copied)
	c.Copied(copied)
	if took := time.Since(c.began).Seconds(); took > 0 {
		c.progress.Rate = float64(c.progress.Listed) / took
	}
	return nil
}

// course is the copying of one key, step by step.
type course interface {
	Ask(server int) (op protocol.Op, ok bool)
	Answer(server int, reply []byte)
}

// step sends all servers the requests of open in this step, and gives them the replies.
func step[C course](ctx context.Context, in *session, open []C) error {
	for s := range in.servers {
		if err := exchange(ctx, in, s, open); err != nil {
			in.hangUp(s)
			return in.named(s, err)
		}
	}
	return nil
}

// exchange is step for server s.
func exchange[C course](ctx context.Context, in *session, s int, open []C) error {
	var asking []C
	var requests []protocol.Op
	for _, t := range open {
		if op, ok := t.Ask(s); ok {
			asking, requests = append(asking, t), append(requests, op)
		}
	}
	if len(asking) == 0 {
		return nil
	}
	l, err := in.link(ctx, s)
	if err != nil {
		return err
	}
	at := 0
	var value bytes.Buffer
	return l.Ask(slices.Values(requests), &value, func(r link.Reply) error {
		reply := []byte(r.Line + protocol.CRLF)
		if r.HasValue() {
			reply = append(append(reply, value.Bytes()...), protocol.CRLF...)
		}
		value.Reset()
		asking[at].Answer(s, reply)
		at++
		return nil
	})
}
