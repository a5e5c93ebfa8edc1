package backend

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"mcmw/internal/link"
	"mcmw/internal/marker"
	"mcmw/internal/protocol"
	"mcmw/internal/stats"
)

// How a middleware marks servers that missed writes, and respects the marks of others; package marker has the rules.
// Fleet.Again takes the answers that say nothing new, and need not be applied at once.
//
//	Keep, one per server ----> mg "mcmw marks" ---> Fleet.Witness, Empty ---> applyMarks ---> Server.bar: workers may read it, or not
//	   ^                                                   |                         '-----> Server.marked: the write may be answered
//	   '----------- ms, by its cas <-----------------------'

const (
	forever = int64(math.MaxInt64)
	// putTries is the number of attempts to put marks that somebody else keeps changing.
	putTries = 20
)

// RespectMarks sets whether the marks of other middlewares count while this one runs. If they do, servers are read only
// while recent looks at enough servers show which servers have missed writes, and a write that a server missed is
// answered only once no middleware reads that server.
func (r *Records) RespectMarks(respects bool) {
	r.mu.Lock()
	r.respects = respects
	if respects {
		r.fleet.Register(stats.Now())
	} else {
		r.fleet.Leave()
	}
	r.inForce()
	r.callAll()
	r.mu.Unlock()
	r.applyMarks()
}

// RespectsMarks reports whether the marks of other middlewares count; see RespectMarks.
func (r *Records) RespectsMarks() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.respects
}

// Lapsed reports whether the lease, the time until which servers may be read, has ended at the given time, ns as
// stats.Now. If it has, Lapsed bars all servers.
func (r *Records) Lapsed(at int64) bool {
	lease := r.lease.Load()
	if at < lease {
		return false
	}
	if r.barredFor.Load() != lease {
		r.applyMarks()
	}
	return true
}

// Unknown reports whether no server may be read now, because it is unknown which servers missed writes. Without records
// all may be read.
func (r *Records) Unknown() bool { return r != nil && stats.Now() >= r.lease.Load() }

// beginFleet handles a first start on these servers: if no server holds any marks, and enough were reached, no
// middleware has marked a server before. Then servers become witnesses without marks, except that each server that was
// not reached is marked.
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
	r.fleet.Alone()
}

// watched says how the looks at a server's marks went, for a warning. Times are ns as stats.Now.
type watched struct {
	asked int64 // when the look that is under way began; 0: there is none
	late  int64 // how much later than it was due the last one began
	took  int64 // how long the last one took
	due   int64 // when the next one is due; 0: unknown
	err   error // of the last one; nil: the server answered
	blank bool  // it answered that it holds no marks
}

// whyUnknown returns what keeps servers from telling which servers missed writes, a text for each of them by its name,
// and one for this middleware if it did not look in time.
func whyUnknown(servers map[string]watched, now int64) (whys []string) {
	const late = int64(marker.LookEvery)
	stalled := int64(0)
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		w := servers[name]
		stalled = max(stalled, w.late)
		switch {
		case w.asked != 0 && now-w.asked > late:
			whys = append(whys, fmt.Sprintf("%s has not answered for %v", name,
				time.Duration(now-w.asked).Round(time.Millisecond)))
		case w.err != nil:
			whys = append(whys, fmt.Sprintf("%s: %v", name, w.err))
		case w.due != 0 && now-w.due > late:
			stalled = max(stalled, now-w.due)
		case w.blank:
			whys = append(whys, name+" has lost its marks")
		case w.took > late:
			whys = append(whys, fmt.Sprintf("%s took %v to answer", name,
				time.Duration(w.took).Round(time.Millisecond)))
		}
	}
	if stalled > late {
		whys = append(whys, fmt.Sprintf("this mcmw was stopped or had no processor for %v",
			time.Duration(stalled).Round(time.Millisecond)))
	}
	return whys
}

// look reads the marks on k's server, and brings this middleware's own marks there up to date. It returns how long to
// wait until the next look.
func (r *Records) look(ctx context.Context, k *keeper) (pause time.Duration) {
	begun := stats.Now()
	r.watches(k.copyOf, func(w *watched) {
		w.asked, w.late = begun, 0
		if w.due != 0 {
			w.late = begun - w.due
		}
	})
	again := false
	err := k.talk(ctx, func(l *link.Link) (err error) {
		again, err = r.lookAt(k.server, k.copyOf, l)
		return err
	})
	now, apply := stats.Now(), false
	r.watches(k.copyOf, func(w *watched) {
		pause, apply = r.fleet.Pause(now), r.unapplied || err != nil
		w.asked, w.took, w.due, w.err = 0, now-begun, now+int64(pause), err
	})
	if apply {
		r.applyMarks()
	}
	if again {
		return 0
	}
	return pause
}

// watches changes what is known of the looks at the server of c.
func (r *Records) watches(c *copyOf, change func(w *watched)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&c.watched)
}

// lookAt reads the marks on s, whose copy is c, once, and changes them if necessary. again: they must be read again, to
// see the change.
func (r *Records) lookAt(s *Server, c *copyOf, l *link.Link) (again bool, err error) {
	begun := stats.Now()
	held, running, err := askMarks(l, c.marks)
	if err != nil {
		return false, err
	}
	c.marks = held
	blank := int64(0)
	if held.value == nil {
		kept, err := endFlush(l)
		if err != nil {
			return false, err
		}
		if kept > 0 {
			blank = begun - int64(kept)
		}
	}
	now := stats.Now()
	var want marker.Marks
	var put bool
	r.mu.Lock()
	c.watched.blank = held.value == nil
	r.sees(c, running, now)
	if r.begun {
		r.fleet.Beat(now)
		switch {
		case held.value == nil:
			want, put = r.fleet.Empty(s.Name, begun, blank, now)
			put = put && s.judged.Load()
			r.unapplied = true
		case now-r.judged >= int64(marker.JudgeEvery) || !r.fleet.Again(s.Name, held.marks, begun, now):
			want, put = r.fleet.Witness(s.Name, held.marks, begun, now)
			r.judged, r.unapplied = now, true
		}
		if r.fleet.News() {
			for _, c := range r.copies {
				wake(c.wake)
			}
		}
	}
	r.mu.Unlock()
	if !put {
		return false, nil
	}
	r.applyMarks() // before others can know that this middleware has found a mark
	again = true
	if put, err = held.put(l, want); put {
		r.mu.Lock()
		if held.value != nil {
			r.fleet.Put(s.Name, held.marks, want, stats.Now())
			again = !r.fleet.Short()
		} else {
			r.forget(s) // it has lost the other records with the marks
		}
		r.mu.Unlock()
	}
	return again, err
}

// applyMarks updates the servers from the marks found, and takes over the marks of middlewares that are gone.
func (r *Records) applyMarks() {
	r.applying.Lock()
	defer r.applying.Unlock()
	r.mu.Lock()
	r.unapplied = false
	now := stats.Now()
	respects, lease := r.respects, forever
	if respects {
		lease = r.fleet.Lease()
	}
	r.lease.Store(lease)
	barred := map[*Server]string{}
	roles := map[*Server]role{}
	for s := range r.copies {
		barred[s] = ""
		by := ""
		if respects {
			by = r.fleet.MarkedBy(s.Name)
		}
		s.markedElsewhere.Store(by != "")
		if !respects {
			continue
		}
		s.setMarked(r.fleet.InForce(s.Name, now))
		decides := role{away: now < lease && (s.Marked() || r.fleet.RespectedByAll(s.Name, now))}
		decides.since, decides.decides = r.fleet.Decides(s.Name, now)
		roles[s] = decides
		if by != "" {
			barred[s] = "it missed writes of " + by
		}
		if now >= lease {
			barred[s] = "too few servers say whether it missed writes of others"
		}
	}
	r.agreed.Store(respects && now < lease && r.fleet.Agrees())
	unknowable := now >= lease && !r.attainable(now)
	placements := r.placements
	var looks map[string]watched
	if now >= lease && !r.lapsed {
		looks = map[string]watched{}
		for s, c := range r.copies {
			looks[s.Name] = c.watched
		}
	}
	orphan, found := r.fleet.Gone(now - int64(r.slack))
	lost := respects && r.fleet.Lost(now-int64(r.slack/4))
	close(r.changed)
	r.changed = make(chan struct{})
	r.mu.Unlock()
	for s, why := range barred {
		if respects && s.Down() && !s.marking.Load() {
			r.mark(s)
		}
		s.setRole(roles[s])
		if before := s.bar(why, unknowable); now < lease && before != why && why != "" {
			r.log.Warn("a server is not read", "server", s.Name, "why", why)
		}
	}
	lapsed := now >= lease
	if lapsed {
		r.mu.Lock()
		if r.placements == placements {
			r.barredFor.Store(lease)
		}
		r.mu.Unlock()
	}
	switch whys := whyUnknown(looks, now); {
	case lapsed && len(whys) > 0: // at the start there was no look yet
		r.lapsed = true
		r.log.Warn("no server is read: too few servers tell which servers missed writes of other mcmw", "why", whys)
	case !lapsed && r.lapsed:
		r.lapsed = false
		r.log.Info("servers are read again: enough of them tell which servers missed writes of other mcmw")
	}
	switch {
	case !respects:
	case lost:
		r.log.Warn("most servers have lost the marks of servers that missed writes: all servers are flushed")
		for s := range barred {
			s.MissedAll(errors.New("it is not known whether it missed writes"))
		}
		r.mu.Lock()
		r.fleet.AcceptEmpty()
		r.callAll()
		r.mu.Unlock()
	case found:
		for s := range barred {
			if s.Name == orphan.Server {
				s.MissedAll(fmt.Errorf("missed writes of %s, which is gone", orphan.Owner))
			}
		}
		r.mu.Lock()
		r.fleet.TakeOver(orphan)
		r.mu.Unlock()
	}
}

// attainable reports whether it may soon be known which servers missed writes: most servers have answered the last look
// at their marks, or have not been asked, or all middlewares may vouch for one; mu is held.
func (r *Records) attainable(now int64) bool {
	n := 0
	for _, c := range r.copies {
		if c.watched.err == nil {
			n++
		}
	}
	return n >= marker.Witnesses(len(r.copies)) || r.fleet.Settles(now)
}

// awaitRespected waits until all middlewares respect the mark of s, if s is marked. It returns false if that does not
// happen in time.
func (r *Records) awaitRespected(ctx context.Context, s *Server) bool {
	for {
		r.mu.Lock()
		now := stats.Now()
		respected := r.stale[s.Name] == 0 || r.fleet.InForce(s.Name, now) != 0
		attainable := r.attainable(now)
		changed := r.changed
		r.mu.Unlock()
		if respected || !attainable {
			return respected
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

// held is what a server holds under a key of middlewares.
type held struct {
	value []byte // nil: nothing
	cas   uint64
}

// ask returns what the server of l holds under keys.
func ask(l *link.Link, keys ...string) (found []held, err error) {
	requests := func(yield func(protocol.Op) bool) {
		for _, key := range keys {
			if !yield(link.Key(key).Ask("vc")) {
				return
			}
		}
	}
	var value bytes.Buffer
	err = l.Ask(requests, &value, func(r link.Reply) error {
		h := held{cas: r.CAS}
		if r.Held {
			h.value = append([]byte{}, value.Bytes()...)
		}
		value.Reset()
		found = append(found, h)
		return nil
	})
	return found, err
}

// replace stores value under key in place of h. It returns false if somebody else has changed that. A server without
// cas (-C) has only one middleware, and replaces it unconditionally.
func (h held) replace(l *link.Link, key string, value []byte) (replaced bool, err error) {
	switch {
	case h.value == nil:
		return l.Add(key, value, 0)
	case h.cas == 0:
		return true, l.Set(key, value, 0)
	}
	return l.Swap(key, value, h.cas)
}

// silent says that a server holds the name of a middleware that does not acknowledge marks.
type silent struct {
	cas   uint64 // of the name; 0: it holds none
	until int64  // the time until which this middleware is taken to run, ns as stats.Now
}

// silentFor is how long a middleware is taken to run that has stored its name. It stores the name again within
// refreshEvery and a fifth of that.
const silentFor = 30 * time.Second

// sees notes what the server of c holds under RunningKey, and reports whether it is the name of a middleware that runs
// and does not acknowledge marks; mu is held.
func (r *Records) sees(c *copyOf, running held, now int64) bool {
	switch name := string(running.value); {
	case name == "" || strings.HasSuffix(name, marker.Acknowledging):
		c.silent = silent{}
		return false
	case c.silent.cas != running.cas || running.cas == 0:
		c.silent = silent{running.cas, now + int64(silentFor)}
	}
	r.fleet.Silent(c.silent.until)
	return now < c.silent.until
}

// heldMarks are the marks on a server.
type heldMarks struct {
	marks marker.Marks
	held
}

// askMarks returns the marks on the server of l, and what it holds under RunningKey. before is what it returned for the
// server before.
func askMarks(l *link.Link, before heldMarks) (marks heldMarks, running held, err error) {
	found, err := ask(l, marker.MarksKey, marker.RunningKey)
	if err != nil {
		return marks, running, err
	}
	marks.held, running = found[0], found[1]
	switch {
	case marks.value == nil:
	case bytes.Equal(marks.value, before.value):
		marks.marks = before.marks
	default:
		marks.marks, err = marker.DecodeMarks(marks.value)
	}
	return marks, running, err
}

// put replaces the marks by want. It returns false if somebody else has changed them.
func (m heldMarks) put(l *link.Link, want marker.Marks) (put bool, err error) {
	return m.replace(l, marker.MarksKey, []byte(want.Encode()))
}

// putMarks brings the marks on a server up to date when middlewares respect the marks of others only at their start.
func (r *Records) putMarks(l *link.Link) error {
	for range putTries {
		held, _, err := askMarks(l, heldMarks{})
		if err != nil {
			return err
		}
		r.mu.Lock()
		want := r.fleet.Want(held.marks)
		r.mu.Unlock()
		if held.value != nil && slices.Equal(want, held.marks) {
			return nil
		}
		if put, err := held.put(l, want); put || err != nil {
			return err
		}
	}
	return errors.New("other mcmw keep changing its marks")
}
