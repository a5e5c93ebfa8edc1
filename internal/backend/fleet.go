package backend

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"mcmw/internal/marker"
	"mcmw/internal/stats"
)

// How a middleware puts marks of servers that missed writes, and heeds those of others; package marker has the rules.
//
//	Watch, one per server ---> mg "mcmw marks" ---> Fleet.Witness, Empty ---> heed ---> Server.bar: workers read it, or not
//	   ^                                                   |                   '-----> Server.marked: the write is answered
//	   '----------- ms, by its cas <-----------------------'

const (
	forever = int64(math.MaxInt64)
	// heededWithin is how long a worker waits for a mark to be in force, if that can be.
	heededWithin = 2 * time.Second
	// putTries is how often marks are put that somebody else changes meanwhile.
	putTries = 20
)

// Heed sets whether the marks of other middlewares count while this one runs. If they do, a server is read only while recent looks at enough
// servers show which ones have missed writes, and a write that a server missed is answered only once no middleware reads that server.
func (r *Records) Heed(heeds bool) {
	r.mu.Lock()
	r.heeds = heeds
	r.inForce()
	r.callAll()
	r.mu.Unlock()
	r.heed()
}

// Heeds reports what Heed has said.
func (r *Records) Heeds() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.heeds
}

// Lapsed reports whether at, a time as stats.Now, is later than the time until which servers may be read. If so, none is read from now on.
func (r *Records) Lapsed(at int64) bool {
	lease := r.lease.Load()
	if at < lease {
		return false
	}
	if r.told.Load() != lease {
		r.heed()
	}
	return true
}

// Unknown reports whether no server may be read now. Without records all may be.
func (r *Records) Unknown() bool { return r != nil && stats.Now() >= r.lease.Load() }

// beginFleet begins to heed marks, behind what the servers reached so far hold. Where no server has any marks, nobody has put one before:
// they have none, but for one on each server that was not reached.
func (r *Records) beginFleet(looks marker.Looks, servers []*Server) {
	for _, look := range looks {
		if look.Marks != nil {
			return
		}
	}
	if len(looks) < marker.Witnesses(len(servers)) {
		return
	}
	for _, s := range servers {
		if _, reached := looks[s.Name]; !reached {
			s.MissedAll(errors.New("not reached at the first start"))
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fleet.Bare()
}

// Watch looks at the marks on s, and keeps the middleware's own there up to date, until ctx is done. One goroutine per server.
func (r *Records) Watch(ctx context.Context, s *Server) {
	r.mu.Lock()
	c := r.copies[s]
	r.mu.Unlock()
	if c == nil {
		return
	}
	var l *Link
	var moves int32
	hangUp := func() {
		if l != nil {
			l.Close()
			l = nil
		}
	}
	defer hangUp()
	for {
		pause, again := time.Hour, false // until it is called
		if r.Heeds() {
			pause = marker.LookEvery
			var err error
			if s.moves.Load() != moves {
				hangUp()
			}
			if l == nil {
				moves = s.moves.Load()
				l, err = s.Link(ctx)
			}
			if err == nil {
				again, err = r.lookAt(s, l)
			}
			if err != nil {
				hangUp()
			}
			r.heed()
		}
		if again && ctx.Err() == nil {
			continue
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-c.look:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// lookAt looks at the marks on s once, and changes them if need be. again: look again, to find what was put.
func (r *Records) lookAt(s *Server, l *Link) (again bool, err error) {
	begun := stats.Now()
	held, err := l.askMarks()
	if err != nil {
		return false, err
	}
	now := stats.Now()
	var want marker.Marks
	var put bool
	r.mu.Lock()
	if r.begun {
		r.fleet.Beat(now)
		if held.cas == "" {
			want, put = r.fleet.Empty(s.Name, begun, now)
			put = put && s.judged.Load()
		} else {
			want, put = r.fleet.Witness(s.Name, held.marks, begun, now)
		}
	}
	r.mu.Unlock()
	if !put {
		return false, nil
	}
	if put, err = l.putMarks(held, want); put && held.cas != "" {
		r.mu.Lock()
		r.fleet.Put(held.marks, want, stats.Now())
		r.mu.Unlock()
	}
	return true, err
}

// heed tells the servers what was found out about them, and takes over the marks of those who are gone.
func (r *Records) heed() {
	r.heeding.Lock()
	defer r.heeding.Unlock()
	r.mu.Lock()
	now := stats.Now()
	heeds, lease := r.heeds, forever
	if heeds {
		lease = r.fleet.Lease()
	}
	r.lease.Store(lease)
	barred := map[*Server]string{}
	away := map[*Server]bool{}
	for s := range r.copies {
		barred[s] = ""
		by := ""
		if heeds {
			by = r.fleet.MarkedBy(s.Name)
		}
		s.markedElsewhere.Store(by != "")
		if !heeds {
			continue
		}
		s.marked.Store(r.fleet.InForce(s.Name, now))
		away[s] = now < lease && (s.Marked() || r.fleet.Heeded(s.Name, now))
		if by != "" {
			barred[s] = "it missed writes of " + by
		}
		if now >= lease {
			barred[s] = "too few servers say whether it missed writes of others"
		}
	}
	places := r.places
	gone, isGone := r.fleet.Gone(now - int64(r.slack))
	lost := heeds && r.fleet.Lost(now-int64(r.slack))
	close(r.changed)
	r.changed = make(chan struct{})
	r.mu.Unlock()
	for s, why := range barred {
		s.goAway(away[s])
		if was := s.bar(why); now < lease && was != why && why != "" {
			r.log.Warn("a server is not read", "server", s.Name, "why", why)
		}
	}
	lapsed := now >= lease
	if lapsed {
		r.mu.Lock()
		if r.places == places {
			r.told.Store(lease)
		}
		r.mu.Unlock()
	}
	if lapsed != r.lapsed {
		r.lapsed = lapsed
		if lapsed {
			r.log.Warn("no server is read: too few can be asked which servers missed writes of others")
		} else {
			r.log.Info("servers are read: enough say which servers missed writes of others")
		}
	}
	switch {
	case !heeds:
	case lost:
		r.log.Warn("most servers have lost which servers missed writes: all are flushed")
		for s := range barred {
			s.MissedAll(errors.New("it is not known whether it missed writes"))
		}
		r.mu.Lock()
		r.fleet.Bare()
		r.callAll()
		r.mu.Unlock()
	case isGone:
		for s := range barred {
			if s.Name == gone.Server {
				s.MissedAll(fmt.Errorf("missed writes of %s, which is gone", gone.Owner))
			}
		}
		r.mu.Lock()
		r.fleet.Bury(gone)
		r.mu.Unlock()
	}
}

// awaitHeeded waits until everybody heeds the mark of s, if it is marked, and reports whether they do.
func (r *Records) awaitHeeded(ctx context.Context, s *Server) bool {
	for deadline := stats.Now() + int64(heededWithin); ; {
		r.mu.Lock()
		now := stats.Now()
		heeded := r.stale[s.Name] == 0 || r.fleet.InForce(s.Name, now) != 0
		attainable := r.fleet.Attainable(now) && now < deadline
		changed := r.changed
		r.mu.Unlock()
		if heeded || !attainable {
			return heeded
		}
		timer := time.NewTimer(marker.LookEvery)
		select {
		case <-changed:
		case <-timer.C:
		case <-ctx.Done():
			return false
		}
		timer.Stop()
	}
}

// heldMarks are the marks on a server.
type heldMarks struct {
	marks marker.Marks
	cas   string // "": it has none
}

// askMarks returns the marks on the server.
func (l *Link) askMarks() (held heldMarks, err error) {
	value, flags, err := l.fetchItem(marker.MarksKey)
	if err != nil || value == nil {
		return held, err
	}
	for flag := range strings.FieldsSeq(flags) {
		if cas, ok := strings.CutPrefix(flag, "c"); ok {
			held.cas = cas
		}
	}
	if _, err := strconv.ParseUint(held.cas, 10, 64); err != nil {
		return held, Unexpected(flags)
	}
	held.marks, err = marker.DecodeMarks(bytes.Clone(value))
	return held, err
}

// putMarks replaces the marks on the server, unless somebody else has, which it reports. A server without cas (-C) has one middleware.
func (l *Link) putMarks(held heldMarks, want marker.Marks) (put bool, err error) {
	condition := "C" + held.cas
	switch held.cas {
	case "":
		condition = "ME"
	case "0":
		condition = ""
	}
	value := want.Encode()
	if err := l.Send(fmt.Sprintf("ms %s %d b %s\r\n%s\r\n", encoded(marker.MarksKey), len(value), condition, value)); err != nil {
		return false, err
	}
	line, err := l.Line()
	if err != nil {
		return false, err
	}
	switch line, _, _ = strings.Cut(line, " "); line {
	case "HD":
		return true, nil
	case "EX", "NS", "NF":
		return false, nil
	}
	return false, Unexpected(line)
}

// putMarks brings the marks on s up to date, where those of others are heeded only by a start.
func (r *Records) putMarks(ctx context.Context, s *Server) error {
	l, err := s.Link(ctx)
	if err != nil {
		return err
	}
	defer l.Close()
	for range putTries {
		held, err := l.askMarks()
		if err != nil {
			return err
		}
		r.mu.Lock()
		want := r.fleet.Want(held.marks)
		r.mu.Unlock()
		if held.cas != "" && slices.Equal(want, held.marks) {
			return nil
		}
		if put, err := l.putMarks(held, want); put || err != nil {
			return err
		}
	}
	return errors.New("its marks are changed by others again and again")
}
