package sweep

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"slices"
	"time"

	"mcmw/internal/backend"
	"mcmw/internal/link"
	"mcmw/internal/marker"
	"mcmw/internal/protocol"
	"mcmw/internal/route"
	"mcmw/internal/stats"
)

// Sweep compares the replicas of the keys on some servers. It is used by one goroutine.
type Sweep struct {
	Router    *route.Router
	Servers   []*backend.Server // in the router's order
	Placement marker.Placement  // of Router
	// Lock blocks this middleware's writes of a key until unlock is called; nil: this program writes nothing.
	Lock func(key []byte) (unlock func())
	// Rate is the largest number of keys compared per second.
	Rate int
	// Values: the values of all keys are compared, not only those whose versions don't show that they are equal.
	Values bool
	// Found, if not nil, is called for every key whose copies differ; then no copy is deleted.
	Found func(Difference) error
	// Fills reports whether a server that lacks copies would be refilled; nil: none is.
	Fills func() bool
	// Progress, if not nil, is called after every window of keys.
	Progress func(Progress)
	Counts   *stats.Sweep
	Log      *slog.Logger

	seed maphash.Seed
	session
	lease    *lease // nil: this is Verify
	room     []int  // reused for the holders of a key
	since    int64  // items of the listed server that were last used before this time are skipped, s; 0: none are
	progress Progress
	tallies  []tally   // by server
	uncut    bool      // the log says that a server's copies can't be deleted
	skipped  int       // a server that was skipped because it was not up; -1: none
	reported time.Time // when the log last got a line of progress
}

// Difference is a key whose copies differ.
type Difference struct {
	Key     string
	Servers []string // the key's holders
	Copies  []Copy   // their copies
}

// Progress is the progress of a sweep.
type Progress struct {
	Server string // the server whose keys are being compared
	Number int    // its number, from 1
	Of     int    // the number of servers
	Listed uint64 // keys that it has listed so far
	Items  uint64 // items that it held when it began to list them
	Keys   uint64 // keys compared so far, on all servers
	Differ uint64 // keys found to differ so far
}

const (
	// DefaultRate is the default number of keys compared per second: a few percent of what a memcached serves.
	DefaultRate = 20_000
	// window is the number of keys that are compared at a time.
	window = 200
	// valueWeight is the number of bytes of values that count as much as one key for the rate.
	valueWeight = 4096
	// reportEvery is the time between two lines in the log.
	reportEvery = 10 * time.Second
	// tries is how often a key is looked at whose copies change between the looks.
	tries = 6
	// slack is by how much the times in a server's list may be behind its clock, s.
	slack = 2
	// allEvery: one of so many sweeps compares all keys, because some changes of an item in place don't update its time
	// of last use.
	allEvery = 12
)

// ErrClaimed says that another middleware is comparing the replicas, or copying the keys.
var ErrClaimed = errors.New("another mcmw is already doing this")

// ErrNotUp says that a server can't be compared now because it is not up.
var ErrNotUp = errors.New("not up")

// NotDue says that the last sweep ended too recently.
type NotDue struct {
	// In is the time until the next sweep is due.
	In time.Duration
}

func (e NotDue) Error() string {
	return fmt.Sprintf("the next comparison of the replicas is due in %v", e.In)
}

// Run compares the keys that were used since the last sweep of any middleware, or in some sweeps all keys, and deletes
// copies that differ. It does nothing if the last sweep ended less than every ago. With every 0 it compares all keys,
// whenever the last sweep was. It returns nil if all servers were up and everything was compared.
func (w *Sweep) Run(ctx context.Context, every time.Duration) error {
	w.begin()
	defer w.disconnect()
	var err error
	if w.lease, _, err = w.take(ctx, w.Servers, marker.SweepKey, nil); err != nil {
		return err
	}
	home := w.lease.home
	defer w.lease.release(ctx, nil, 0)
	all := every == 0
	last, err := w.readRecord(ctx, home)
	if err != nil {
		return w.named(home, err)
	}
	if last != nil {
		now, _, err := w.clock(ctx, home)
		if err != nil {
			return w.named(home, err)
		}
		ago := time.Duration(max(0, now-last.Ended)) * time.Second
		w.Counts.Last(ago, last.Differ)
		if ago < every {
			return NotDue{every - ago}
		}
	}
	w.Counts.Runs(true)
	placement, err := w.placement()
	if err != nil {
		return err
	}
	records, before := make([]record, len(w.Servers)), make([]*record, len(w.Servers))
	err = w.eachServer(func(s int) error {
		last, err := w.readRecord(ctx, s)
		if err != nil {
			return err
		}
		before[s] = last
		r := &records[s]
		r.Placement = placement
		w.since = 0
		if last != nil && last.Placement == placement && last.Rounds+1 < allEvery && !all {
			w.since, r.Rounds = max(1, last.Began-slack), last.Rounds+1
		}
		if r.Began, w.progress.Items, err = w.clock(ctx, s); err != nil {
			return err
		}
		return w.sweep(ctx, s)
	})
	if err != nil {
		return err
	}
	for s := range w.Servers {
		r := &records[s]
		if err = w.fillUp(ctx, s, r, before[s], every); err == nil {
			r.Ended, _, err = w.clock(ctx, s)
		}
		if err == nil {
			r.Keys, r.Differ = w.progress.Keys, w.progress.Differ
			err = w.putRecord(ctx, s, *r)
		}
		if err != nil {
			return w.named(s, err)
		}
	}
	w.Counts.Last(0, w.progress.Differ)
	return nil
}

// Verify compares all keys and calls Found for those that differ. It changes nothing.
func (w *Sweep) Verify(ctx context.Context) (Progress, error) {
	w.begin()
	defer w.disconnect()
	err := w.eachServer(func(s int) (err error) {
		if _, w.progress.Items, err = w.clock(ctx, s); err != nil {
			return err
		}
		return w.sweep(ctx, s)
	})
	return w.progress, err
}

func (w *Sweep) begin() {
	w.seed, w.session, w.reported = maphash.MakeSeed(), newSession(w.Servers), time.Now()
	w.progress, w.skipped, w.tallies = Progress{Of: len(w.Servers)}, -1, make([]tally, len(w.Servers))
}

// eachServer calls do for every server that is up, and returns an error if one is not.
func (w *Sweep) eachServer(do func(s int) error) error {
	for s, server := range w.Servers {
		if !server.Readable() {
			w.skipped = s
			continue
		}
		w.progress.Server, w.progress.Number, w.progress.Listed = server.Name, s+1, 0
		if err := do(s); err != nil {
			return w.named(s, err)
		}
	}
	if w.skipped >= 0 {
		return w.named(w.skipped, ErrNotUp)
	}
	return nil
}

// listed is a key that the server being listed holds.
type listed struct {
	key     string
	holders []int
	at      int    // the index of the listed server among the holders
	copies  []Copy // by holder
}

// sweep compares the keys of server s.
func (w *Sweep) sweep(ctx context.Context, s int) error {
	return inWindows(ctx, w.Servers[s], w.Rate, func(item protocol.Dumped) (chosen *listed, size int64) {
		w.progress.Listed++
		if w.since > 0 && item.Accessed > 0 && item.Accessed < w.since {
			return nil, 0
		}
		w.room = w.Router.Replicas(item.Key, w.room[:0])
		at := slices.Index(w.room, s)
		if at < 0 || len(w.room) == 1 {
			return nil, 0 // the server is no holder of the key, or the only one
		}
		chosen = &listed{string(item.Key), slices.Clone(w.room), at, make([]Copy, len(w.room))}
		chosen.copies[at] = Copy{Held: true, CAS: item.CAS}
		return chosen, 0
	}, func(items []*listed) (read int64, err error) {
		begin := time.Now()
		read, err = w.compare(ctx, s, items)
		if w.lease != nil {
			err = errors.Join(err, w.lease.renew(ctx, func() []byte { return nil }, false))
		}
		w.progress.Keys += uint64(len(items))
		w.Counts.Compared(len(items), time.Since(begin))
		if w.Progress != nil {
			w.Progress(w.progress)
		}
		if time.Since(w.reported) >= reportEvery {
			w.reported = time.Now()
			w.Log.Info("comparing the replicas", "server", w.progress.Server, "keys", w.progress.Keys, "differ",
				w.progress.Differ)
		}
		return read, err
	})
}

// compare looks at keys that server s holds, and settles those that differ. It returns the number of bytes of values
// that it read.
func (w *Sweep) compare(ctx context.Context, s int, items []*listed) (bytes int64, err error) {
	if _, err := w.look(ctx, items, false, func(i, h int) bool { return h != items[i].at }); err != nil {
		return 0, err
	}
	var doubtful []*listed
	for _, item := range items {
		held := func(c Copy) bool { return c.Held }
		earlier := slices.ContainsFunc(item.copies[:item.at], held)
		if !earlier {
			w.count(item)
		}
		switch {
		case earlier && w.since == 0: // compared when the earlier server was listed
		case !earlier && !slices.ContainsFunc(item.copies[item.at+1:], held): // the only copy
		case !w.Values && SameVersion(item.copies):
		default:
			doubtful = append(doubtful, item)
		}
	}
	bytes, err = w.look(ctx, doubtful, true, func(int, int) bool { return true })
	if err != nil {
		return bytes, err
	}
	for i := range doubtful {
		var c Case
		if _, again := c.Look(doubtful[i].copies); again {
			more, err := w.settle(ctx, &c, doubtful[i:i+1])
			if bytes += more; err != nil {
				return bytes, err
			}
		}
	}
	return bytes, nil
}

// settle looks at a key until its copies agree, or two looks in a row show the same disagreement. Then it deletes
// copies, or calls Found.
func (w *Sweep) settle(ctx context.Context, c *Case, item []*listed) (bytes int64, err error) {
	if w.Lock != nil {
		defer w.Lock([]byte(item[0].key))()
	}
	counted := false
	for range tries {
		read, err := w.look(ctx, item, true, func(int, int) bool { return true })
		if bytes += read; err != nil {
			return bytes, err
		}
		differ, again := c.Look(item[0].copies)
		if !again {
			return bytes, nil
		}
		if len(differ) == 0 {
			continue
		}
		if !counted {
			counted = true
			w.progress.Differ++
			w.Counts.Disagreed()
		}
		if w.Found != nil {
			return bytes, w.Found(w.difference(item[0]))
		}
		if cut, err := w.cut(ctx, item[0], differ); err != nil || !cut {
			return bytes, err
		}
	}
	return bytes, nil
}

func (w *Sweep) difference(item *listed) Difference {
	d := Difference{Key: item.key, Copies: item.copies}
	for _, s := range item.holders {
		d.Servers = append(d.Servers, w.Servers[s].Name)
	}
	return d
}

// cut deletes the copies that these holders of item have. It returns false if it could delete none.
func (w *Sweep) cut(ctx context.Context, item *listed, holders []int) (done bool, err error) {
	for _, h := range holders {
		server, cas := w.Servers[item.holders[h]], item.copies[h].CAS
		if cas == 0 { // a deletion with cas 0 would be unconditional
			if !w.uncut {
				w.uncut = true
				w.Log.Warn("a server has copies that differ and cannot be deleted, because it runs without cas; "+
					"restart it without memcached's option -C", "server", server.Name)
			}
			continue
		}
		l, err := w.link(ctx, item.holders[h])
		if err != nil {
			return done, w.named(item.holders[h], err)
		}
		deleted, err := l.Cut(item.key, cas)
		if err != nil {
			return done, w.named(item.holders[h], err)
		}
		if deleted {
			w.Counts.Deleted()
		}
		done = true
	}
	return done, nil
}

// look asks the holders of items for their copies, server by server: those that are up and for which ask returns true.
// It returns the number of bytes of values that it read.
func (w *Sweep) look(ctx context.Context, items []*listed, values bool, ask func(item, holder int) bool) (bytes int64,
	err error,
) {
	type question struct{ item, holder int }
	asked := make([][]question, len(w.Servers))
	for i := range items {
		for h, s := range items[i].holders {
			if ask(i, h) {
				items[i].copies[h] = Copy{}
				if w.Servers[s].Readable() {
					asked[s] = append(asked[s], question{i, h})
				} else {
					w.skipped = s
				}
			}
		}
	}
	for s, questions := range asked {
		if len(questions) == 0 {
			continue
		}
		l, err := w.link(ctx, s)
		if err != nil {
			return bytes, w.named(s, err)
		}
		flags := protocol.ForVersion
		if values {
			flags = protocol.ForItem
		}
		var giveBack []protocol.Op
		var value maphash.Hash
		value.SetSeed(w.seed)
		at := 0
		err = l.Ask(func(yield func(protocol.Op) bool) {
			for _, q := range questions {
				if !yield(link.Key(items[q.item].key).Ask(flags)) {
					return
				}
			}
		}, &value, func(r link.Reply) error {
			q := questions[at]
			at++
			found := Copy{Held: r.Held, CAS: r.CAS}
			if r.HasValue() {
				bytes += int64(r.Size)
				_, _ = fmt.Fprintf(&value, " %d", r.Flags)
				found.Sum = value.Sum64()
				value.Reset()
			}
			items[q.item].copies[q.holder] = found
			if r.Won {
				giveBack = append(giveBack, link.Key(items[q.item].key).GiveBack(r.CAS))
			}
			return nil
		})
		if err == nil {
			err = l.Tell(slices.Values(giveBack))
		}
		if err != nil {
			return bytes, w.named(s, err)
		}
	}
	return bytes, nil
}
