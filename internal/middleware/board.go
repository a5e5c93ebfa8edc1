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

// notice is a key under which middlewares announce in which phases of a change they are.
type notice uint8

const (
	noticeDeleting notice = iota
	noticeCopying
	noticeReading
	numNotices
)

// noticesIn are the keys under which a middleware in a phase announces it.
var noticesIn = [route.NumPhases][]notice{
	route.DeleteNew: {noticeDeleting}, route.Copy: {noticeCopying},
	route.HandOver: {noticeCopying, noticeReading}, route.ReadNew: {noticeReading},
}

// board is where middlewares announce changes: items on the servers concerned. C is what is announced of a change
// besides its name. An announcement is put again as long as the middleware is in the phase, and then expires.
type board[C any] struct {
	servers []*backend.Server
	keys    [numNotices]string // "": such changes have no phase for it
	decode  func(value []byte) (a announced[C], ok bool)
}

// announced is a change that a middleware has announced.
type announced[C any] struct {
	route.Announced
	change C
}

// sightings are what middlewares have announced, by key.
type sightings[C any] [numNotices][]announced[C]

// of reports whether somebody has announced change under key.
func (s *sightings[C]) of(key notice, change route.Announced) bool {
	return slices.ContainsFunc(s[key], func(a announced[C]) bool { return a.Announced == change })
}

// all returns all of s.
func (s *sightings[C]) all() []announced[C] { return slices.Concat(s[:]...) }

// names returns the announced changes.
func names[C any](all []announced[C]) (names []route.Announced) {
	for _, a := range all {
		names = append(names, a.Announced)
	}
	return names
}

// sight returns what middlewares have announced, except under the keys in without.
func (b *board[C]) sight(ctx context.Context, without ...notice) (all sightings[C]) {
	for n, key := range b.keys {
		if key == "" || slices.Contains(without, notice(n)) {
			continue
		}
		var mu sync.Mutex // guards all[n]
		each(b.servers, func(s *backend.Server) {
			_ = s.Talk(ctx, func(l *link.Link) error {
				value, _, err := l.Get(key)
				if a, ok := b.decode(value); err == nil && ok {
					mu.Lock()
					defer mu.Unlock()
					all[n] = append(all[n], a)
				}
				return err
			})
		})
	}
	return all
}

// announce writes value, which describes a change, on the servers, because this middleware enters phase or is in it,
// and returns what middlewares in other phases have announced. If two middlewares enter a phase at the same time, at
// least one sees the other, because each first writes its announcement and then reads the other's.
func (b *board[C]) announce(ctx context.Context, phase route.Phase, value []byte, lasts time.Duration) sightings[C] {
	notices := noticesIn[phase]
	if len(notices) > 0 {
		each(b.servers, func(s *backend.Server) {
			_ = s.Talk(ctx, func(l *link.Link) (err error) {
				for _, n := range notices {
					err = errors.Join(err, l.Set(b.keys[n], value, lasts))
				}
				return err
			})
		})
	}
	return b.sight(ctx, notices...)
}

// leave withdraws what announce has written for phase, except what it writes for phase next. A middleware that stays in
// the phase announces it again.
func (b *board[C]) leave(ctx context.Context, phase, next route.Phase) {
	for _, n := range noticesIn[phase] {
		if !slices.Contains(noticesIn[next], n) {
			each(b.servers, func(s *backend.Server) {
				_ = s.Talk(ctx, func(l *link.Link) error { return l.Delete(b.keys[n]) })
			})
		}
	}
}

// join makes a middleware that starts join the change that others have announced. enter enters it in a phase, and
// returns what to announce; nil: it can't. The announcements are read again after this middleware has made its own: if
// it joins in a phase before read-new, none of the others has left read-new before it has seen that. If the two looks
// are further apart than soon, announcements may have expired meanwhile, and it begins again. The phase is settled if
// there is nothing to join.
func (b *board[C]) join(ctx context.Context, soon, lasts time.Duration,
	enter func(a announced[C], phase route.Phase) (value []byte),
) (phase route.Phase) {
	begun, seen := time.Now(), b.sight(ctx)
	next := func() (route.Announced, route.Phase) {
		return route.Join(names(seen[noticeDeleting]), names(seen[noticeCopying]), names(seen[noticeReading]))
	}
	for {
		a, phase := next()
		if phase == route.Settled {
			return phase
		}
		all := seen.all()
		joins := all[slices.Index(names(all), a)]
		value := enter(joins, phase)
		if value == nil {
			return route.Settled
		}
		if seen = b.announce(ctx, phase, value, lasts); phase == route.ReadNew {
			return phase
		}
		for _, n := range noticesIn[phase] {
			seen[n] = []announced[C]{joins}
		}
		switch _, again := next(); {
		case time.Since(begun) > soon:
			b.leave(ctx, phase, route.Settled)
			begun, seen = time.Now(), b.sight(ctx)
		case again == phase:
			return phase
		}
	}
}

func (p *pool) each(do func(s *backend.Server)) { each(p.servers, do) }

// each calls do for each of the servers that is not down, all at the same time, and waits for them.
func each(servers []*backend.Server, do func(s *backend.Server)) {
	var doing sync.WaitGroup
	for _, s := range servers {
		if !s.Down() {
			doing.Go(func() { do(s) })
		}
	}
	doing.Wait()
}
