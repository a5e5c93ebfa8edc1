package sweep

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"mcmw/internal/backend"
	"mcmw/internal/marker"
	"mcmw/internal/protocol"
	"mcmw/internal/route"
)

// Copier copies the keys of a pool to another pool, again and again, as long as it may: what others have changed meanwhile is copied the next time.
// One middleware at a time does so. Used by one goroutine.
type Copier struct {
	// Name tells migrations apart.
	Name string
	// Router says which servers a key is read from, Servers are in its order; so of the pool that it is copied to, with To.
	From, To       *route.Router
	Servers, Gains []*backend.Server
	// Has reports whether a key is copied; nil: all are.
	Has func(key []byte) bool
	// Rate is the most keys per second that are looked at; 0 means DefaultRate.
	Rate int
	// Hold is how long a copy lasts that was not looked at since; see Transfer.
	Hold time.Duration
	// Pause is the time between two rounds through all keys.
	Pause time.Duration
	// Told is called with what is known of the progress, by whichever middleware.
	Told func(CopyProgress)
	// Copied is called for keys that were copied here.
	Copied func(keys int)
	// Failed is called by Fill with what kept it from copying; "": nothing.
	Failed func(why string)
	Log    *slog.Logger

	session  Sweep // the connections: those of Servers, then those of Gains
	home     int
	claimed  time.Time
	progress CopyProgress
	began    time.Time // of the round
	warned   bool      // the log says that a key is not taken
}

// CopyProgress is how far the copying is, as the servers keep it.
type CopyProgress struct {
	Name string `json:"name"`
	// Round is the number of the round through all keys, from 1. Listed keys of it were looked at, of the Items that there were.
	Round  int    `json:"round"`
	Listed uint64 `json:"listed"`
	Items  uint64 `json:"items"`
	// Copied keys were copied so far.
	Copied uint64 `json:"copied"`
	// Rate is how many keys are looked at per second in this round.
	Rate float64 `json:"rate"`
	// Complete: a round has ended in which every key was looked at.
	Complete bool `json:"complete"`
	// Left are the keys of this round that were not copied: others went on changing them, or they are too large there.
	Left uint64 `json:"left,omitempty"`
}

// valuesAtOnce bounds the values that are read before they are stored, bytes, by what the server says of their size.
const valuesAtOnce = 1 << 20

// Run copies until ctx ends. ErrClaimed: another middleware does. If keep is positive, what is known stays on the servers for so long behind the end.
func (c *Copier) Run(ctx context.Context, keep func() time.Duration) error {
	c.connects()
	defer c.session.disconnect()
	if c.home = slices.IndexFunc(c.Servers, (*backend.Server).Readable); c.home < 0 {
		return ErrNotUp
	}
	if err := c.claim(ctx); err != nil {
		return c.session.named(c.home, err)
	}
	defer c.release(ctx, keep)
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
		if err := c.tell(ctx); err != nil {
			return err
		}
		for until := time.Now().Add(c.Pause); time.Now().Before(until); {
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(min(time.Until(until), claimEvery)):
			}
			if err := c.tell(ctx); err != nil && ctx.Err() == nil {
				return err
			}
		}
	}
}

// line is what puts the progress on a server for a time; with mode ME if nothing is there.
func (c *Copier) line(keep time.Duration, flags string) string {
	value, _ := json.Marshal(c.progress) // of numbers and a text
	return fmt.Sprintf("ms %s %d b T%d%s\r\n%s\r\n", own(marker.MigrationKey), len(value), max(1, int64(keep/time.Second)), flags, value)
}

// claim takes the right to copy, or tells how far who has it is.
func (c *Copier) claim(ctx context.Context) error {
	c.progress = CopyProgress{Name: c.Name}
	l, err := c.session.link(ctx, c.home)
	if err != nil {
		return err
	}
	c.claimed = time.Now()
	if err := l.Send(c.line(claimFor*time.Second, " ME")); err != nil {
		return err
	}
	switch line, err := l.Line(); {
	case err != nil:
		return err
	case line == "HD":
		return nil
	case line != "NS":
		return backend.Unexpected(line)
	}
	if p, ok := readProgress(l); ok && p.Name == c.Name {
		c.Told(p)
	}
	return ErrClaimed
}

// readProgress reads what a server holds of the progress.
func readProgress(l *backend.Link) (p CopyProgress, ok bool) {
	value, err := l.Fetch(marker.MigrationKey)
	if err != nil || value == nil {
		return p, false
	}
	return p, json.Unmarshal(value, &p) == nil
}

// RecallProgress returns what the servers hold of the progress of the migration called name; ok is false if none does.
func RecallProgress(ctx context.Context, servers []*backend.Server, name string) (p CopyProgress, ok bool) {
	home := slices.IndexFunc(servers, (*backend.Server).Readable)
	if home < 0 {
		return p, false
	}
	l, err := servers[home].Link(ctx)
	if err != nil {
		return p, false
	}
	defer l.Close()
	p, ok = readProgress(l)
	return p, ok && p.Name == name
}

// tell renews the claim if that is due, and says how far the copying is.
func (c *Copier) tell(ctx context.Context) error {
	c.Told(c.progress)
	if time.Since(c.claimed) < claimEvery && !c.progress.Complete {
		return nil
	}
	c.claimed = time.Now()
	l, err := c.session.link(ctx, c.home)
	if err != nil {
		return err
	}
	return l.Expect(c.line(claimFor*time.Second, ""), "HD")
}

// release gives the claim back, also when ctx has ended, or leaves what is known.
func (c *Copier) release(ctx context.Context, keep func() time.Duration) {
	if c.session.links[c.home] != nil {
		c.session.links[c.home].Close()
		c.session.links[c.home] = nil
	}
	l, err := c.session.link(context.WithoutCancel(ctx), c.home)
	if err != nil {
		return // it expires
	}
	if left := keep(); left > 0 {
		_ = l.Expect(c.line(left, ""), "HD")
	} else {
		_ = l.Expect("md "+own(marker.MigrationKey)+" b\r\n", "HD", "NF")
	}
}

// round looks at all keys once, and copies what is missing.
func (c *Copier) round(ctx context.Context) error {
	c.began = time.Now()
	c.progress.Listed, c.progress.Items, c.progress.Left = 0, 0, 0
	for s := range c.Servers {
		if !c.Servers[s].Readable() {
			return c.session.named(s, ErrNotUp)
		}
		_, items, err := c.session.clock(ctx, s)
		if err != nil {
			return c.session.named(s, err)
		}
		c.progress.Items += items
	}
	for s := range c.Servers {
		if err := c.copyOf(ctx, s); err != nil {
			return c.session.named(s, err)
		}
	}
	return nil
}

// copyOf copies the keys that server s is the first to have of those that are read.
func (c *Copier) copyOf(ctx context.Context, s int) error {
	var items []*Transfer
	var size int64
	var room []int
	copyItems := func() error {
		begin := time.Now()
		err := c.transfer(ctx, items)
		if err == nil {
			err = c.tell(ctx)
		}
		pause := time.Duration(int64(len(items))+size/valueWeight)*time.Second/time.Duration(c.Rate) - time.Since(begin)
		items, size = items[:0], 0
		if err == nil {
			c.rest(ctx, pause)
		}
		return errors.Join(err, ctx.Err())
	}
	err := c.Servers[s].List(ctx, func(item protocol.Dumped) error {
		c.progress.Listed++
		if c.Has != nil && !c.Has(item.Key) {
			return nil
		}
		room = c.From.Readers(item.Key, room[:0])
		at := slices.Index(room, s)
		if at < 0 {
			return nil // it is read elsewhere
		}
		t := &Transfer{Key: keyText(string(item.Key)), Source: s, Ahead: slices.Clone(room[:at]), Hold: int64(c.Hold / time.Second)}
		for _, g := range c.To.Replicas(item.Key, nil) {
			t.To = append(t.To, len(c.Servers)+g)
		}
		items, size = append(items, t), size+item.Size
		if len(items) < window && size < valuesAtOnce {
			return nil
		}
		return copyItems()
	})
	if err != nil {
		return err
	}
	return copyItems()
}

// transfer takes transfers to their ends, all step by step.
func (c *Copier) transfer(ctx context.Context, items []*Transfer) error {
	for open := items; len(open) > 0; {
		for s := range c.session.Servers {
			if err := c.exchange(ctx, s, open); err != nil {
				return c.session.named(s, err)
			}
		}
		var left []*Transfer
		for _, t := range open {
			if t.Next() {
				left = append(left, t)
			}
		}
		open = left
	}
	copied := 0
	for _, t := range items {
		switch t.Outcome() {
		case TransferCopied:
			copied++
		case TransferMoving:
			c.progress.Left++
		case TransferRefused:
			c.progress.Left++
			if !c.warned {
				c.warned = true
				c.Log.Warn("a key is not copied, because a server of the new pool does not take it; accepted: the same item size (memcached -I) in both pools", "to", c.Name)
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

// exchange asks server s what the transfers want to know in this step.
func (c *Copier) exchange(ctx context.Context, s int, open []*Transfer) error {
	var asking []*Transfer
	var requests []string
	for _, t := range open {
		if request := t.Ask(s, nil); len(request) > 0 {
			asking, requests = append(asking, t), append(requests, string(request))
		}
	}
	if len(asking) == 0 {
		return nil
	}
	l, err := c.session.link(ctx, s)
	if err != nil {
		return err
	}
	at := 0
	var reply bytes.Buffer
	return l.Pipeline(slices.Values(requests), func() error {
		line, err := l.Line()
		if err != nil {
			return err
		}
		request, _, _ := strings.Cut(requests[at], protocol.CRLF)
		if !protocol.MetaFits([]byte(request), []byte(line)) {
			return backend.Unexpected(line)
		}
		reply.Reset()
		reply.WriteString(line + protocol.CRLF)
		if words := strings.Fields(line); len(words) > 1 && words[0] == "VA" {
			size, err := strconv.ParseInt(words[1], 10, 63)
			if err != nil || size < 0 {
				return backend.Unexpected(line)
			}
			if err := l.Value(&reply, size); err != nil {
				return err
			}
			reply.WriteString(protocol.CRLF)
		} else if !slices.Contains(codes, line[:min(len(line), 2)]) && !strings.HasPrefix(line, "SERVER_ERROR object too large") {
			return backend.Unexpected(line)
		}
		asking[at].Answer(s, reply.Bytes())
		at++
		return nil
	})
}

// codes are those of the replies that a transfer can be answered with, without a value.
var codes = []string{"HD", "EN", "NS", "EX", "NF"}
