package backend

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"mcmw/internal/link"
	"mcmw/internal/marker"
)

const (
	// probeMin and probeMax bound the pause between probes of a server that is down. Each pause is half as long again
	// as the one before, varied by up to a fifth so that many middlewares do not probe in step. probeMax keeps the
	// return to service under a second.
	probeMin = 50 * time.Millisecond
	probeMax = 400 * time.Millisecond
	// refillProbe is the pause between probes of a server that is being refilled.
	refillProbe = 200 * time.Millisecond
	// readmitAfter is the number of consecutive probes that a server must answer after it was down. A server that
	// answers every second probe stays down.
	readmitAfter = 3
	// cleanAfter is the same for a stale server. When it has answered twice, it has processed everything that it
	// received before the first probe, so no abandoned write takes effect after its key was deleted.
	cleanAfter = 2
)

// Probe brings the server back into service whenever it is down or stale, and ends a suspicion once the server answers,
// until ctx is done. One goroutine per server.
func (s *Server) Probe(ctx context.Context) {
	defer func() {
		s.mu.Lock()
		s.proberless = true
		abandoned := s.takeAbandoned()
		s.mu.Unlock()
		s.unsettled.Store(abandoned.settle(s.options.Load().ConnectTimeout) != nil)
	}()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		}
		for !s.up() || s.Suspected() {
			if !s.recover(ctx) {
				return
			}
		}
	}
}

// recover probes until the server is up and not suspect. It returns false if ctx ends first.
func (s *Server) recover(ctx context.Context) bool {
	pause, answered, moves := probeMin, 0, s.Moves()
	for {
		if now := s.Moves(); now != moves {
			moves, answered = now, 0
		}
		needed := cleanAfter
		if s.Down() {
			needed = readmitAfter
		}
		p, err := s.Link(ctx)
		if err == nil {
			if err = s.askVersion(p); err == nil {
				answered++
			}
			held := s.held.Load() && s.Down()
			s.returns.Store(held && err == nil && answered >= needed)
			switch {
			case err != nil, held:
			case s.up():
				s.Answered()
			case answered >= needed:
				err = s.rejoin(ctx, p, moves)
			}
			p.Close()
		}
		switch {
		case s.up() && !s.Suspected():
			return true
		case err == nil && s.Lacks():
			pause = refillProbe
		case err == nil:
			pause = probeMin
		default:
			answered = 0
			s.returns.Store(false)
			s.Failed(plain(err))
			pause = min(pause*3/2, probeMax)
		}
		if !Pause(ctx, time.Duration(float64(pause)*(0.8+0.4*rand.Float64()))) {
			return false
		}
	}
}

// Pause waits for d, or until ctx is done, and reports whether it is not.
func Pause(ctx context.Context, d time.Duration) bool {
	if d > 0 {
		select {
		case <-ctx.Done():
		case <-time.After(d):
		}
	}
	return ctx.Err() == nil
}

// rejoin removes the old values that the server may hold, and sets it up if it missed nothing meanwhile. p was
// connected after so many moves.
func (s *Server) rejoin(ctx context.Context, p *link.Link, moves int32) error {
	records := s.options.Load().Records
	if records != nil && !s.judged.Load() {
		look, err := s.look(p)
		if err != nil {
			return err
		}
		looks := records.Looks()
		looks[s.Name] = look
		s.Judge(looks)
	}
	s.mu.Lock()
	if s.Moves() != moves {
		s.missed.addAll() // what has been judged is the server at the previous address
		s.mu.Unlock()
		return nil
	}
	// They are taken under one lock: a key is deleted only after all abandoned connections that may carry its write are
	// settled.
	taken, abandoned, joins := s.missed.take(), s.takeAbandoned(), s.joins
	wasDown, since := State(s.state.Load()) == Down, s.since
	isClean := !s.refill.since.IsZero() && !wasDown && taken.empty() && joins == nil && s.moved == nil
	s.mu.Unlock()
	err := abandoned.settle(p.Timeout())
	if err == nil && !isClean {
		err = s.clean(ctx, p, taken, joins, wasDown, since)
	}
	lacks := false
	if err == nil {
		lacks, err = s.lacks(p)
	}
	if err != nil {
		s.mu.Lock()
		s.missed.putBack(taken)
		s.mu.Unlock()
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures.Store(0)
	s.moved, s.joins = nil, nil
	lacks = s.setLacks(lacks)
	switch {
	case s.missed.empty() && !lacks:
		s.change(Up, nil)
		if records != nil {
			records.unmark(s)
		}
	case wasDown:
		// It answers, and is written to from now on. The next round cleans what it missed during this one, and it may
		// have to be refilled.
		s.change(Stale, s.why)
	}
	return nil
}

// clean applies the Rejoin policy to the keys m that the server missed. If the server joins, it is treated as having
// missed all keys, unless another middleware has cleaned it for this change. wasDown and since are its state.
func (s *Server) clean(ctx context.Context, p *link.Link, m missed, joins *Mark, wasDown bool, since time.Time) error {
	if joins != nil && !m.all {
		marked, err := joins.on(p)
		if err != nil {
			return err
		}
		m.all = !marked
	}
	switch {
	case s.options.Load().Rejoin == RejoinTrust:
		return nil
	case s.options.Load().Rejoin == RejoinInvalidate && !m.all:
		if err := p.DeleteAll(maps.Keys(m.keys)); err != nil {
			return err
		}
		s.mu.Lock()
		moved := s.moved
		s.mu.Unlock()
		if s.purge(ctx, p, moved) {
			return nil
		}
	}
	// A server that was started after it went down is empty, unless other middlewares have written to it since.
	if records := s.options.Load().Records; wasDown && (records == nil || !records.RespectsMarks()) {
		started, err := started(p)
		if err != nil {
			return err
		}
		if started.After(since) {
			s.options.Load().Log.Info("a server was restarted and is empty", "server", s.Name, "started", started)
			return nil
		}
	}
	s.options.Load().Log.Warn("a server is flushed before it serves reads again", "server", s.Name, "rejoin",
		s.options.Load().Rejoin.String())
	err := p.Flush(marker.KeptKeys...)
	if err == nil {
		s.mu.Lock()
		s.flushes++
		s.mu.Unlock()
		if joins != nil {
			err = joins.put(p)
		}
	}
	if records := s.options.Load().Records; records != nil {
		records.lost(s)
	}
	return err
}

// Hold makes the server stay down, if it is or becomes so, until Release: it is not known how to write to it. unused:
// it has not been used yet, and is down from now on.
func (s *Server) Hold(unused bool) {
	s.held.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	if unused {
		s.change(Down, errors.New("it has not said yet whether other mcmw may write to it"))
	}
}

// Release ends Hold.
func (s *Server) Release() { s.held.Store(false) }

// Answers reports whether the server is not down, or would not stay so without Hold.
func (s *Server) Answers() bool { return !s.Down() || s.held.Load() && s.returns.Load() }

// Reach tries once to reach the server before it is used. A server that does not answer starts as down. Reach requests
// the version, because a server that requires a certificate or a password accepts the connection and refuses requests
// only later.
func (s *Server) Reach(ctx context.Context) error {
	err := plain(s.reach(ctx))
	if err != nil {
		if records := s.options.Load().Records; records != nil {
			records.unfound(s)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.change(Down, err)
	}
	return err
}

func (s *Server) reach(ctx context.Context) error {
	return s.Talk(ctx, func(l *link.Link) error {
		if err := s.askVersion(l); err != nil {
			return err
		}
		if records := s.options.Load().Records; records != nil {
			look, err := s.look(l)
			if err != nil {
				return err
			}
			records.found(s, look)
		}
		return nil
	})
}

// look reads the records that the server holds. A server that cannot hold records has none.
func (s *Server) look(l *link.Link) (marker.Look, error) {
	o := s.options.Load()
	look, err := readRecords(l)
	if _, unexpected := errors.AsType[link.Unexpected](err); unexpected {
		o.Log.Warn("a server can't hold records for the next start; memcached 1.6 can", "server", s.Name, "error", err)
		s.recordless.Store(true)
		return marker.Look{}, nil
	}
	return look, err
}

// Judge decides, from looks, which include one at this server, what must be done before it serves reads. Called once.
func (s *Server) Judge(looks marker.Looks) {
	o := s.options.Load()
	doubt := looks.Doubt(s.Name, o.Records.RespectsMarks())
	var moved func(key []byte) bool
	if newest := looks.Newest(); doubt == "" && newest != nil {
		var unknown bool
		if moved, unknown = o.Records.moved(s.Name, newest); unknown {
			doubt = "it is not known which of its keys were on other servers meanwhile"
		}
	}
	switch {
	case doubt != "":
		o.Log.Warn("a server may hold old values, and is flushed", "server", s.Name, "why", doubt)
		s.MissedAll(errors.New(doubt))
	case moved != nil:
		o.Log.Info("a server gets back keys that were on other servers meanwhile; its old copies are deleted first",
			"server", s.Name)
		s.mu.Lock()
		s.moved = moved
		s.stale(errors.New("it gets back keys that were on other servers"))
		s.mu.Unlock()
	}
	s.judged.Store(true)
}

// askVersion requests the server's version, which also shows whether it serves.
func (s *Server) askVersion(l *link.Link) error {
	version, err := l.Version()
	if err != nil {
		return err
	}
	s.version.Store(&version)
	var v [3]int
	n, _ := fmt.Sscanf(version, "%d.%d.%d", &v[0], &v[1], &v[2]) // text after the numbers is ignored
	s.tellsExpiry.Store(n == len(v) && slices.Compare(v[:], []int{1, 6, 24}) >= 0)
	return nil
}

// TellsExpiry reports whether the server is known to be memcached 1.6.24 or later. In older ones, the reply to me does
// not distinguish an item without an expiry from one that expires within a second.
func (s *Server) TellsExpiry() bool { return s.tellsExpiry.Load() }

// Version returns the version that the server told last; "": none yet.
func (s *Server) Version() string {
	if v := s.version.Load(); v != nil {
		return *v
	}
	return ""
}

// started returns the earliest time at which the server can have been started, according to its uptime, which is in
// whole seconds.
func started(l *link.Link) (time.Time, error) {
	told, err := l.Stats("", "uptime")
	up, ok := told["uptime"]
	if err == nil && !ok {
		err = errors.New("stats without uptime")
	}
	return time.Now().Add(-time.Duration(up+2) * time.Second), err
}
