package netstage

import (
	"context"
	"time"

	"mcmw/internal/request"
	"mcmw/internal/stats"
)

// slowPatience is how long a large request may arrive more slowly than Options.MinRate. wantedPatience is the same
// while another connection waits for its memory; it must be well below memoryPatience.
var (
	slowPatience   = 10 * time.Second
	wantedPatience = 2 * time.Second
)

// agePatience is how long a client that never pauses between its requests is still read after its connection has
// reached its maximum age.
var agePatience = 10 * time.Second

// watchEvery is the longest time between two checks of the connections.
const watchEvery = time.Second

// Watch closes connections that are too old, and those that are idle or whose clients are slow for longer than allowed,
// until ctx ends.
func (s *Stage) Watch(ctx context.Context) {
	// A connection is closed at most a quarter too late.
	every := min(watchEvery, wantedPatience/4)
	if s.options.IdleTimeout > 0 {
		every = min(every, max(s.options.IdleTimeout/4, time.Millisecond))
	}
	if s.options.MaxAge > 0 {
		every = min(every, max(s.options.MaxAge/16, time.Millisecond))
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	last := stats.Now()
	var slow []*conn
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		patience := slowPatience
		if s.input.Wanted() {
			patience = wantedPatience
		}
		crowded := s.output.Wanted()
		now := stats.Now()
		s.mu.Lock()
		for c := range s.conns {
			if now >= c.expires && c.leaving.Load() == 0 {
				c.leave(stats.CloseAge, now+int64(agePatience))
			}
			switch {
			case c.owed.Load() > 0:
				if c.owes(time.Duration(now-last), crowded) {
					_ = c.sock.SetWriteDeadline(time.Unix(1, 0))
				}
			case c.batch.Load() != none || c.waits.Load():
				c.slow = 0
			case c.idle(now):
				c.cut(stats.CloseIdle)
			case c.lags(time.Duration(now-last), patience):
				c.cut(stats.CloseSlow)
				slow = append(slow, c)
			}
		}
		s.mu.Unlock()
		for _, c := range slow {
			s.warn(c, &s.laggards, "a client is closed: its request came too slowly")
		}
		clear(slow)
		slow = slow[:0]
		last = now
	}
}

// owes reports whether the client must be closed because it reads the replies that wait for it too slowly while others
// need the memory (crowded). The last check was elapsed ago. Otherwise only the write timeout applies.
func (c *conn) owes(elapsed time.Duration, crowded bool) bool {
	owed := c.owed.Load()
	taken := c.sawOwed - owed
	c.sawOwed = owed
	if !crowded || taken < 0 || float64(taken) >= float64(c.stage.options.MinRate)*elapsed.Seconds() {
		c.slow = 0
		return false
	}
	c.slow += elapsed
	return c.slow >= wantedPatience
}

// idle reports whether no request has come for longer than allowed. A request that has come in part counts unless it
// comes too slowly.
func (c *conn) idle(now int64) bool {
	o := &c.stage.options
	if o.IdleTimeout == 0 {
		return false
	}
	if began := c.began.Load(); began != 0 && o.MinRate > 0 {
		took := time.Duration(now - began)
		return took > o.IdleTimeout && float64(c.came.Load()) < float64(o.MinRate)*took.Seconds()
	}
	return c.active.Load() < now-int64(o.IdleTimeout)
}

// lags reports whether a request that takes counted memory has come too slowly for longer than patience. The last check
// was elapsed ago.
func (c *conn) lags(elapsed, patience time.Duration) bool {
	began, came := c.began.Load(), c.came.Load()
	since := came
	if began == c.sawBegan {
		since -= c.sawCame
	}
	c.sawBegan, c.sawCame = began, came
	if began == 0 || came < request.ReadSize || float64(since) >= float64(c.stage.options.MinRate)*elapsed.Seconds() {
		c.slow = 0
		return false
	}
	c.slow += elapsed
	return c.slow >= patience
}
