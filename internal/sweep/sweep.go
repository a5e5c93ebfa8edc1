package sweep

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"mcmw/internal/backend"
	"mcmw/internal/marker"
	"mcmw/internal/protocol"
	"mcmw/internal/route"
	"mcmw/internal/stats"
)

// Sweep compares the replicas of the keys that some servers hold. Used by one goroutine.
type Sweep struct {
	Router    *route.Router
	Servers   []*backend.Server // in the router's order
	Placement marker.Placement  // that of Router
	// Lock blocks this middleware's writes of a key until unlock is called; nil: this program writes nothing.
	Lock func(key []byte) (unlock func())
	// Rate is the most keys per second that are compared; 0 means DefaultRate.
	Rate int
	// Values: the values of all keys are compared, not only where versions differ or mean nothing.
	Values bool
	// Found, if not nil, is called for every key that differs, which is left as it is.
	Found func(Difference) error
	// Progress, if not nil, is called behind every window of keys.
	Progress func(Progress)
	Counts   *stats.Sweep
	Log      *slog.Logger

	seed     maphash.Seed
	links    []*backend.Link // by server; nil: not connected
	room     []int           // of holders
	home     int             // the server that has the claim
	claimed  time.Time
	since    int64 // items of the listed server that were not touched since are passed over; 0: none are
	progress Progress
	uncut    bool // the log says that a server's copies can't be deleted
	passed   int  // a server that was passed over because it was not up; -1: none
	reported time.Time
}

// Difference is a key that its holders hold differently.
type Difference struct {
	Key     string
	Servers []string // the key's holders
	Copies  []Copy   // what they have
}

// Progress is how far a sweep is.
type Progress struct {
	Server string // whose keys are being compared
	Number int    // of that server, from 1
	Of     int    // servers
	Listed uint64 // keys of that server so far
	Items  uint64 // that it held when it was asked for them
	Keys   uint64 // compared on all servers so far
	Differ uint64 // of them found to differ
}

const (
	// DefaultRate is the default of Sweep.Rate: a few percent of what a memcached serves.
	DefaultRate = 20_000
	// window is the number of keys that are compared at a time.
	window = 200
	// valueWeight is how many bytes of values are as much load as a key.
	valueWeight = 4096
	// reportEvery is the time between two lines in the log.
	reportEvery = 10 * time.Second
	// tries is how often a key is looked at that others change meanwhile.
	tries = 6
	// slack is by how much a server's list may be behind its clock, s.
	slack = 2
	// allEvery is how many sweeps there are for one that compares all keys: memcached doesn't date some changes of an item in
	// place.
	allEvery = 12
)

// ErrClaimed says that another middleware is comparing the replicas.
var ErrClaimed = errors.New("another middleware compares the replicas")

// ErrNotUp says that a server can't be compared now because it is not up.
var ErrNotUp = errors.New("not up")

// NotDue says that the last sweep is not so long ago.
type NotDue struct {
	// In is when the next one is due.
	In time.Duration
}

func (e NotDue) Error() string {
	return fmt.Sprintf("the replicas are to be compared again in %v", e.In)
}

// Run compares the keys that were touched since the last sweep of any middleware, and now and then all; and deletes what differs.
// It does nothing if the last one ended less than every ago; with every 0 it compares all keys at once. nil means that all
// servers were up and everything was compared.
func (w *Sweep) Run(ctx context.Context, every time.Duration) error {
	w.begin()
	defer w.disconnect()
	w.home = slices.IndexFunc(w.Servers, (*backend.Server).Readable)
	if w.home < 0 {
		return ErrNotUp
	}
	if err := w.claim(ctx); err != nil {
		return w.named(w.home, err)
	}
	defer w.release(ctx)
	all := every == 0
	last, err := w.readRecord(ctx, w.home)
	if err != nil {
		return w.named(w.home, err)
	}
	if last != nil {
		now, _, err := w.clock(ctx, w.home)
		if err != nil {
			return w.named(w.home, err)
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
	records := make([]record, len(w.Servers))
	err = w.eachServer(func(s int) error {
		last, err := w.readRecord(ctx, s)
		if err != nil {
			return err
		}
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
		if r.Ended, _, err = w.clock(ctx, s); err == nil {
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

// Verify compares all keys and tells Found what differs. It changes nothing.
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
	w.seed, w.links, w.reported = maphash.MakeSeed(), make([]*backend.Link, len(w.Servers)), time.Now()
	w.progress, w.passed = Progress{Of: len(w.Servers)}, -1
	if w.Rate == 0 {
		w.Rate = DefaultRate
	}
}

// eachServer calls do for every server that is up, and returns an error if one is not.
func (w *Sweep) eachServer(do func(s int) error) error {
	for s, server := range w.Servers {
		if !server.Readable() {
			w.passed = s
			continue
		}
		w.progress.Server, w.progress.Number, w.progress.Listed = server.Name, s+1, 0
		if err := do(s); err != nil {
			return w.named(s, err)
		}
	}
	if w.passed >= 0 {
		return w.named(w.passed, ErrNotUp)
	}
	return nil
}

func (w *Sweep) named(s int, err error) error { return fmt.Errorf("%s: %w", w.Servers[s].Name, err) }

// link returns the connection to server s.
func (w *Sweep) link(ctx context.Context, s int) (*backend.Link, error) {
	if w.links[s] == nil {
		l, err := w.Servers[s].Link(ctx)
		if err != nil {
			return nil, err
		}
		w.links[s] = l
	}
	return w.links[s], nil
}

func (w *Sweep) disconnect() {
	for _, l := range w.links {
		if l != nil {
			l.Close()
		}
	}
}

// clock returns the time of server s, seconds, and how many items it holds.
func (w *Sweep) clock(ctx context.Context, s int) (now int64, items uint64, err error) {
	l, err := w.link(ctx, s)
	if err != nil {
		return 0, 0, err
	}
	err = l.Stats(func(name, value string) (err error) {
		switch name {
		case "time":
			now, err = strconv.ParseInt(value, 10, 64)
		case "curr_items":
			items, err = strconv.ParseUint(value, 10, 64)
		}
		return err
	})
	if err == nil && now <= 0 {
		err = errors.New("statistics without the time")
	}
	return now, items, err
}

// listed is a key that the server being listed holds.
type listed struct {
	key     string
	holders []int
	at      int    // the server's place among them
	copies  []Copy // what they have
}

// sweep compares the keys of server s.
func (w *Sweep) sweep(ctx context.Context, s int) error {
	items := make([]listed, 0, window)
	compare := func() error {
		begin := time.Now()
		bytes, err := w.compare(ctx, s, items)
		if w.Found == nil {
			err = errors.Join(err, w.goOn(ctx))
		}
		took := time.Since(begin)
		w.progress.Keys += uint64(len(items))
		w.Counts.Compared(len(items), took)
		if w.Progress != nil {
			w.Progress(w.progress)
		}
		if time.Since(w.reported) >= reportEvery {
			w.reported = time.Now()
			w.Log.Info("the replicas are being compared", "server", w.progress.Server, "keys", w.progress.Keys, "differ", w.progress.Differ)
		}
		pause := time.Duration(int64(len(items))+bytes/valueWeight)*time.Second/time.Duration(w.Rate) - took
		items = items[:0]
		if err == nil && pause > 0 {
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
		}
		return errors.Join(err, ctx.Err())
	}
	err := w.Servers[s].List(ctx, func(item protocol.Dumped) error {
		w.progress.Listed++
		if w.since > 0 && item.Accessed > 0 && item.Accessed < w.since {
			return nil
		}
		w.room = w.Router.Replicas(item.Key, w.room[:0])
		at := slices.Index(w.room, s)
		if at < 0 || len(w.room) == 1 {
			return nil // its copies are elsewhere, or there are none
		}
		items = append(items, listed{string(item.Key), slices.Clone(w.room), at, make([]Copy, len(w.room))})
		items[len(items)-1].copies[at] = Copy{Held: true, CAS: item.CAS}
		if len(items) < window {
			return nil
		}
		return compare()
	})
	if err != nil {
		return err
	}
	return compare()
}

// compare looks at keys that server s holds, and settles those that differ. It returns how many bytes of values it read.
func (w *Sweep) compare(ctx context.Context, s int, items []listed) (bytes int64, err error) {
	if _, err := w.look(ctx, items, false, func(i, h int) bool { return h != items[i].at }); err != nil {
		return 0, err
	}
	var doubtful []listed
	for _, item := range items {
		held := func(c Copy) bool { return c.Held }
		earlier := slices.ContainsFunc(item.copies[:item.at], held)
		switch {
		case earlier && w.since == 0: // compared with the keys of that server
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

// settle looks at a key until its copies agree, or it is clear that they don't.
func (w *Sweep) settle(ctx context.Context, c *Case, item []listed) (bytes int64, err error) {
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
			return bytes, w.Found(w.difference(&item[0]))
		}
		if cut, err := w.cut(ctx, &item[0], differ); err != nil || !cut {
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

// cut deletes the copies of item that those holders have; it returns whether it could.
func (w *Sweep) cut(ctx context.Context, item *listed, holders []int) (done bool, err error) {
	for _, h := range holders {
		server, cas := w.Servers[item.holders[h]], item.copies[h].CAS
		if cas == 0 { // a deletion on the condition of cas 0 has none
			if !w.uncut {
				w.uncut = true
				w.Log.Warn("a server's copies differ and cannot be deleted, because it keeps no cas (memcached -C)", "server", server.Name)
			}
			continue
		}
		l, err := w.link(ctx, item.holders[h])
		if err != nil {
			return done, w.named(item.holders[h], err)
		}
		if err := l.Send(string(AppendCut(nil, item.key, cas))); err != nil {
			return done, w.named(item.holders[h], err)
		}
		switch line, err := l.Line(); {
		case err != nil:
			return done, w.named(item.holders[h], err)
		case line == "HD":
			w.Counts.Deleted()
		case line != "NF" && line != "EX":
			return done, w.named(item.holders[h], backend.Unexpected(line))
		}
		done = true
	}
	return done, nil
}

// look asks the holders of items that ask chooses and are up for what they have, server by server. It returns how many bytes of values it read.
func (w *Sweep) look(ctx context.Context, items []listed, values bool, ask func(item, holder int) bool) (bytes int64, err error) {
	type question struct{ item, holder int }
	asked := make([][]question, len(w.Servers))
	for i := range items {
		for h, s := range items[i].holders {
			if ask(i, h) {
				items[i].copies[h] = Copy{}
				if w.Servers[s].Readable() {
					asked[s] = append(asked[s], question{i, h})
				} else {
					w.passed = s
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
		var request, giveBack []byte
		at := 0
		err = l.Pipeline(func(yield func(string) bool) {
			for _, q := range questions {
				request = AppendLook(request[:0], items[q.item].key, values)
				if !yield(string(request)) {
					return
				}
			}
		}, func() error {
			q := questions[at]
			at++
			line, err := l.Line()
			if err != nil {
				return err
			}
			request = AppendLook(request[:0], items[q.item].key, values)
			f, err := readLook(request, line)
			if err != nil {
				return err
			}
			if f.size >= 0 {
				bytes += f.size
				if f.Sum, err = f.sum(w.seed, func(to io.Writer) error { return l.Value(to, f.size) }); err != nil {
					return err
				}
			}
			items[q.item].copies[q.holder] = f.Copy
			if f.won {
				giveBack = keyText(items[q.item].key).AppendGiveBack(giveBack, f.CAS)
			}
			return nil
		})
		if err == nil {
			err = l.Pipeline(strings.Lines(string(giveBack)), func() error { _, err := l.Line(); return err })
		}
		if err != nil {
			return bytes, w.named(s, err)
		}
	}
	return bytes, nil
}
