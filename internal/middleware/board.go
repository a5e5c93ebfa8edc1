package middleware

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"mcmw/internal/backend"
	"mcmw/internal/link"
	"mcmw/internal/route"
)

// notice is a key under which middlewares announce in which phases of a change they are; see courseRows.
type notice uint8

const (
	noticeDeleting notice = iota
	noticeCopying
	noticeReading
	numNotices
)

// board is where middlewares announce changes: items on the servers concerned. An announcement is put again as long as
// the middleware is in the phase, and then expires.
type board struct {
	servers []*backend.Server
	keys    [numNotices]string // "": such changes have no phase for it
	read    func(value []byte) (a announced, ok bool)
	// own is the change of this middleware, and value what it writes about it. If own.From is "", the change is known
	// by its To alone.
	own   route.Announced
	value []byte
}

// announced is a change that a middleware has announced.
type announced struct {
	route.Announced
	change func() driven // the change for this middleware; nil: it does not know a server or pool that this needs
}

// sightings are what middlewares have announced.
type sightings struct {
	own route.Announced // as in board
	by  [numNotices][]announced
}

// has reports whether somebody has announced the own change under one of keys.
func (s *sightings) has(keys ...notice) bool {
	return slices.ContainsFunc(keys, func(key notice) bool {
		return slices.ContainsFunc(s.by[key], func(a announced) bool {
			return a.To == s.own.To && (a.From == s.own.From || s.own.From == "")
		})
	})
}

// all returns all of s.
func (s *sightings) all() []announced { return slices.Concat(s.by[:]...) }

// names returns the announced changes.
func names(all []announced) (names []route.Announced) {
	for _, a := range all {
		names = append(names, a.Announced)
	}
	return names
}

// sight returns what middlewares have announced, except under the keys in without.
func (b *board) sight(ctx context.Context, without ...notice) (all sightings) {
	all.own = b.own
	var mu sync.Mutex // guards all
	eachAnswering(b.servers, func(s *backend.Server) {
		for n, key := range b.keys {
			if key == "" || slices.Contains(without, notice(n)) {
				continue
			}
			answers := talk(ctx, s, func(l *link.Link) error {
				value, _, err := l.Get(key)
				if a, ok := b.read(value); err == nil && ok {
					mu.Lock()
					defer mu.Unlock()
					all.by[n] = append(all.by[n], a)
				}
				return err
			})
			if !answers {
				return
			}
		}
	})
	return all
}

// announce writes the own change on the servers, because this middleware enters phase or is in it, and returns what
// middlewares in other phases have announced. If two middlewares enter a phase at the same time, at least one sees the
// other, because each first writes its announcement and then reads the other's.
func (b *board) announce(ctx context.Context, phase route.Phase, lasts time.Duration) sightings {
	notices := courseRows[phase].announces
	if len(notices) > 0 {
		eachAnswering(b.servers, func(s *backend.Server) {
			talk(ctx, s, func(l *link.Link) (err error) {
				for _, n := range notices {
					err = errors.Join(err, l.Set(b.keys[n], b.value, lasts))
				}
				return err
			})
		})
	}
	return b.sight(ctx, notices...)
}

// leave withdraws what announce has written for phase, except what it writes for phase next. A middleware that stays in
// the phase announces it again.
func (b *board) leave(ctx context.Context, phase, next route.Phase) {
	for _, n := range courseRows[phase].announces {
		if !slices.Contains(courseRows[next].announces, n) {
			eachAnswering(b.servers, func(s *backend.Server) {
				talk(ctx, s, func(l *link.Link) error { return l.Delete(b.keys[n]) })
			})
		}
	}
}

// talk calls say with a link to s, and reports whether s answers. What changes waits for this, so that a server which
// does not answer must soon be down, whether or not clients need it: then it is left out.
func talk(ctx context.Context, s *backend.Server, say func(l *link.Link) error) (answers bool) {
	err := s.Talk(ctx, say)
	if _, unexpected := errors.AsType[link.Unexpected](err); err == nil || unexpected {
		return true
	}
	if ctx.Err() == nil {
		s.Failed(err)
	}
	return false
}

// eachAnswering calls do for each of the servers that answers, all at the same time, and waits for them.
func eachAnswering(servers []*backend.Server, do func(s *backend.Server)) {
	each(servers, func(s *backend.Server) {
		if s.Answers() {
			do(s)
		}
	})
}

// each calls do for each of all, at the same time, and waits for them.
func each[T any](all []T, do func(T)) {
	var doing sync.WaitGroup
	for _, one := range all {
		doing.Go(func() { do(one) })
	}
	doing.Wait()
}
