package follow

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"mcmw/internal/backend"
	"mcmw/internal/link"
	"mcmw/internal/marker"
)

// Watch keeps on the servers of a followed pool since when a pool that follows it may lack writes: a line for each
// middleware. A middleware puts its line there before its first write, and removes it when it ends without debts. It
// takes over the line of a middleware that has ended otherwise. Used by one goroutine.
type Watch struct {
	// Name is the name of the following pool.
	Name string
	// Follower is what is watched, and Servers are those of the followed pool.
	Follower interface {
		State() State
		Doubt(since time.Time)
	}
	Servers func() []*backend.Server
	// Every is the time between two looks. The line of a middleware that does not change for Lease is taken over.
	Every, Lease time.Duration

	owner string
	beat  uint64
	seen  map[string]sight
}

// sight is when a line of another middleware had last changed.
type sight struct {
	line line
	at   time.Time
}

// line says of a middleware from when on writes may be missing, in ms since 1970. A beat of 0 is that of a middleware
// that has ended.
type line struct {
	owner string
	since int64
	beat  uint64
}

// parse returns the lines of a record. What it does not understand it leaves out.
func parse(record []byte) (lines []line) {
	for text := range strings.Lines(string(record)) {
		words := strings.Fields(text)
		if len(words) != 3 {
			continue
		}
		since, err := strconv.ParseInt(words[1], 10, 64)
		beat, wrong := strconv.ParseUint(words[2], 10, 64)
		if err == nil && wrong == nil {
			lines = append(lines, line{words[0], since, beat})
		}
	}
	return lines
}

func format(lines []line) []byte {
	var text []byte
	for _, l := range lines {
		text = fmt.Appendf(text, "%s %d %d\n", l.owner, l.since, l.beat)
	}
	return text
}

// Begin puts the first line on all servers that answer.
func (w *Watch) Begin(ctx context.Context) {
	w.owner, w.seen = fmt.Sprintf("%016x", rand.Uint64()), map[string]sight{}
	w.look(ctx, time.Now())
}

// Run keeps the lines until ctx is done.
func (w *Watch) Run(ctx context.Context) {
	tick := time.NewTicker(w.Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		w.look(ctx, time.Now())
	}
}

// End removes the line if nothing is owed. Otherwise it says that this middleware has ended. gone: the pool is not to
// follow any more, so that nothing is owed.
func (w *Watch) End(ctx context.Context, gone bool) {
	now, mine := time.Now(), []line(nil)
	if s := w.Follower.State(); !gone && !s.Clear() {
		mine = []line{{w.owner, s.Since(now).UnixMilli(), 0}}
	}
	for _, s := range w.Servers() {
		if s.Down() {
			continue
		}
		_ = w.put(ctx, s, func(lines []line) []line { return append(w.others(lines), mine...) })
	}
}

// look takes over the lines of middlewares that are gone, and puts the current line on all servers that are up.
func (w *Watch) look(ctx context.Context, now time.Time) {
	w.beat++
	for _, s := range w.Servers() {
		if s.Down() {
			continue
		}
		_ = w.put(ctx, s, func(lines []line) []line { return w.next(lines, now) })
	}
	for owner, seen := range w.seen {
		if now.Sub(seen.at) > 10*w.Lease {
			delete(w.seen, owner)
		}
	}
}

// next returns the lines that replace those found on a server.
func (w *Watch) next(lines []line, now time.Time) []line {
	others := slices.DeleteFunc(w.others(lines), func(l line) bool {
		last, known := w.seen[l.owner]
		if !known || last.line != l && last.line.beat <= l.beat {
			w.seen[l.owner] = sight{l, now}
			last.at = now
		}
		gone := l.beat == 0 || now.Sub(last.at) >= w.Lease
		if gone {
			w.Follower.Doubt(time.UnixMilli(l.since))
		}
		return gone
	})
	state := w.Follower.State()
	return append(others, line{w.owner, state.Since(now).UnixMilli(), w.beat})
}

func (w *Watch) others(lines []line) []line {
	return slices.DeleteFunc(lines, func(l line) bool { return l.owner == w.owner })
}

// tries is how often a record is written that others change at the same time.
const tries = 5

// put replaces the record on s.
func (w *Watch) put(ctx context.Context, s *backend.Server, next func([]line) []line) error {
	key := marker.FollowKey + w.Name
	return s.Talk(ctx, func(l *link.Link) error {
		for range tries {
			record, cas, err := l.Get(key)
			if err != nil {
				return err
			}
			done := false
			switch text := format(next(parse(record))); {
			case record != nil:
				done, err = l.Swap(key, text, cas)
			case len(text) > 0:
				done, err = l.Add(key, text, 0)
			default:
				done = true
			}
			if done || err != nil {
				return err
			}
		}
		return fmt.Errorf("the record %q is changed all the time", key)
	})
}
