package load

import (
	"container/heap"
	"math"
	"slices"
	"time"
)

// notDue is the due time of a request that is never due, ns of stats.Now.
const notDue = math.MaxInt64

// pace says when a connection's requests are due. The zero value is for a closed loop without think time, which does
// not use it.
type pace struct {
	due int64 // of the next request, ns of stats.Now; notDue: no request is due
	// since when the connection could have sent it, ns of stats.Now: the pipeline had room and the socket accepted
	// bytes
	free int64
	at   int // index in the thread's agenda; negative: not in the agenda

	n     float64 // the next request's number in the Schedule
	ready []int64 // with think time: when the think times of free slots end, ascending; due is not among them
}

// pacer decides when requests are due. It is immutable; the state of a connection is in its pace.
type pacer struct {
	o     *Options
	begin int64 // of the recording, ns of stats.Now
}

// start sets when the first request of a connection is due.
func (p *pacer) start(c *conn) {
	c.pace.at = -1
	n := float64(p.o.Connections)
	if p.o.Schedule == nil {
		// The first requests are spread out, as if the think times had begun at different times before.
		for slot := range c.ring {
			wait := p.think(c)
			if !p.o.ThinkRandom {
				wait = int64(float64(wait) * (float64(slot) + float64(c.id)/n) / float64(len(c.ring)))
			}
			c.pace.ready = append(c.pace.ready, p.begin-int64(p.o.WarmUp)+wait)
		}
		slices.Sort(c.pace.ready)
		p.advance(c)
		return
	}
	c.pace.n = p.o.Schedule.Count(-p.o.WarmUp.Seconds())
	if p.o.Schedule.Poisson {
		c.pace.n += n * p.exponential(c)
	} else {
		c.pace.n += float64(c.id)
	}
	c.pace.due = p.time(c.pace.n)
}

// advance sets when the request after that of c.pace.due is due. Even arrivals assign the requests to the connections
// in turn. A Poisson process is the sum of independent ones, one per connection.
func (p *pacer) advance(c *conn) {
	s := p.o.Schedule
	switch {
	case s == nil:
		c.pace.due = notDue
		if len(c.pace.ready) > 0 {
			c.pace.due = c.pace.ready[0]
			c.pace.ready = c.pace.ready[:copy(c.pace.ready, c.pace.ready[1:])]
		}
		return
	case s.Poisson:
		c.pace.n += float64(p.o.Connections) * p.exponential(c)
	default:
		c.pace.n += float64(p.o.Connections)
	}
	c.pace.due = p.time(c.pace.n)
}

// time returns when request n of the schedule is due, ns of stats.Now.
func (p *pacer) time(n float64) int64 {
	ns := p.o.Schedule.Due(n) * 1e9
	if ns >= math.MaxInt64/2 {
		return notDue
	}
	return p.begin + int64(ns)
}

// replied notes a reply that came at now. wasFull says whether the pipeline was full until then.
func (p *pacer) replied(c *conn, now int64, wasFull bool) {
	if wasFull {
		c.pace.free = now
	}
	if p.o.Schedule != nil {
		return
	}
	ready := now + p.think(c)
	if c.pace.due > ready {
		ready, c.pace.due = c.pace.due, ready
	}
	if ready != notDue {
		at, _ := slices.BinarySearch(c.pace.ready, ready)
		c.pace.ready = slices.Insert(c.pace.ready, at, ready)
	}
}

// think draws a think time, ns.
func (p *pacer) think(c *conn) int64 {
	if p.o.ThinkRandom {
		return int64(float64(p.o.ThinkTime) * p.exponential(c))
	}
	return int64(p.o.ThinkTime)
}

// exponential draws from the exponential distribution of mean 1.
func (p *pacer) exponential(c *conn) float64 { return -math.Log1p(-uniform(&c.rng)) }

// agenda has the connections that will send, the earliest first.
type agenda []*conn

// Len, Less, Swap, Push and Pop implement heap.Interface.
func (a agenda) Len() int           { return len(a) }
func (a agenda) Less(i, j int) bool { return a[i].pace.due < a[j].pace.due }
func (a agenda) Swap(i, j int) {
	a[i], a[j] = a[j], a[i]
	a[i].pace.at, a[j].pace.at = i, j
}

// Push appends a *conn.
func (a *agenda) Push(x any) {
	c := x.(*conn)
	c.pace.at = len(*a)
	*a = append(*a, c)
}

// Pop removes and returns the last.
func (a *agenda) Pop() any {
	last := len(*a) - 1
	c := (*a)[last]
	(*a)[last] = nil
	*a = (*a)[:last]
	c.pace.at = -1
	return c
}

// set moves a connection to the position of its due time, or removes it.
func (a *agenda) set(c *conn, in bool) {
	switch {
	case in && c.pace.at >= 0:
		heap.Fix(a, c.pace.at)
	case in:
		heap.Push(a, c)
	case c.pace.at >= 0:
		heap.Remove(a, c.pace.at)
	}
}

// sendDue sends the requests that are due. Requests due at or after the end of sending are not sent.
func (t *thread) sendDue(now int64) error {
	for t.sending && len(t.agenda) > 0 && t.agenda[0].pace.due <= min(now, t.phase.end-1) {
		if err := t.fill(t.agenda[0]); err != nil {
			return err
		}
	}
	return nil
}

// bunchGap is the time within which requests count as sent together: roughly the delay of a thread's wake-up.
const bunchGap = int64(100 * time.Microsecond)

// bunches counts the requests of a thread, and those that it sent within bunchGap of the previous one.
type bunches struct {
	requests, together uint64
	last               int64 // when the last one was sent, ns of stats.Now
}

func (b *bunches) count(sent int64) {
	b.requests++
	if sent-b.last < bunchGap {
		b.together++
	}
	b.last = sent
}

// stopSending ends the sending and counts the requests that were due but could not be sent.
func (t *thread) stopSending(now int64) error {
	t.sending = false
	if t.pacer == nil {
		return nil
	}
	// A paced load lasts for its whole duration, even if nothing was due at the end.
	if !t.recorded {
		t.lastReply = max(t.lastReply, min(now, t.phase.end))
	}
	limit := min(now, t.phase.end-1)
	for _, c := range t.conns {
		if t.o.Schedule != nil {
			for left := c.left; left != 0 && c.pace.due <= limit; left-- {
				t.unsent++
				t.pacer.advance(c)
			}
		}
		if c.watched {
			if err := t.fill(c); err != nil {
				return err
			}
		}
	}
	return nil
}

// untilDue returns how long a thread may wait for replies until a request is due, ns.
func (t *thread) untilDue() int64 {
	wait := int64(maxSleep) * 1e6
	if !t.sending {
		return wait
	}
	now := t.now()
	if len(t.agenda) > 0 {
		wait = min(wait, t.agenda[0].pace.due-now)
	}
	return max(min(wait, t.phase.end-now), 0)
}
