package backend

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"mcmw/internal/link"
	"mcmw/internal/marker"
	"mcmw/internal/stats"
)

// keeper is the one who keeps what middlewares write on a server, and its connection.
type keeper struct {
	*copyOf
	Line
	records *Records
}

// talk calls say with a link to the server, which stays open for the next time.
func (k *keeper) talk(ctx context.Context, say func(l *link.Link) error) error {
	before, begun := k.Open, stats.Now()
	l, err := k.Link(ctx)
	if err != nil || l != before {
		k.records.mu.Lock()
		if err == nil {
			k.records.fleet.Met(k.server.Name, stats.Now())
		} else if errors.As(err, new(refusal)) {
			k.records.fleet.Refused(k.server.Name, begun, stats.Now())
		}
		k.records.mu.Unlock()
	}
	if err != nil {
		return err
	}
	if err = say(l); err != nil {
		k.HangUp()
	}
	return err
}

// Keep keeps on s what middlewares write there, until ctx is done: the records for the next start, and the marks, which
// it also reads. It does nothing before Begin. One goroutine per server.
func (r *Records) Keep(ctx context.Context, s *Server) {
	select {
	case <-r.beginning:
	case <-ctx.Done():
		return
	}
	r.mu.Lock()
	k := &keeper{r.copies[s], s.Line(), r}
	r.mu.Unlock()
	if k.copyOf == nil {
		return
	}
	defer k.HangUp()
	refresh := time.Now().Add(refreshAfter())
	for due := true; ctx.Err() == nil; {
		respects, pause := r.RespectsMarks(), refreshEvery
		if respects {
			pause = r.look(ctx, k)
		}
		if due {
			refresh = time.Now().Add(refreshAfter())
			r.watches(k.copyOf, func(w *watched) { w.asked, w.due = stats.Now(), 0 })
			if s.takesRecords() && !r.put(ctx, s, k.copyOf, k.talk) {
				refresh = time.Now().Add(putAgain)
			}
			r.watches(k.copyOf, func(w *watched) { w.asked = 0 })
		}
		if !respects {
			k.HangUp()
		}
		timer := time.NewTimer(min(pause, time.Until(refresh)))
		select {
		case <-ctx.Done():
		case <-k.wake:
			due = true
		case <-timer.C:
			if due = !time.Now().Before(refresh); due {
				r.mu.Lock()
				k.again = true
				r.fleet.Beat(stats.Now())
				r.mu.Unlock()
			}
		}
		timer.Stop()
	}
}

func refreshAfter() time.Duration {
	return time.Duration(float64(refreshEvery) * (0.8 + 0.4*rand.Float64()))
}

// put brings the records on s up to date by talk. It returns false if that failed.
func (r *Records) put(ctx context.Context, s *Server, c *copyOf,
	talk func(ctx context.Context, say func(l *link.Link) error) error,
) bool {
	c.putting.Lock()
	defer c.putting.Unlock()
	for {
		r.mu.Lock()
		round, lost := r.round, c.lost
		if !r.begun || (c.has == round && !c.again) {
			r.mu.Unlock()
			return true
		}
		c.again = false
		respects := r.respects // then the marks are put by lookAt
		r.mu.Unlock()
		err := talk(ctx, func(l *link.Link) error {
			if !respects {
				if err := r.putMarks(l); err != nil {
					return err
				}
			}
			return r.putRecord(s, c, l)
		})
		r.mu.Lock()
		if c.lost == lost {
			c.tried = round
			if err == nil {
				c.has = round
			}
		}
		r.inForce()
		close(r.changed)
		r.changed = make(chan struct{})
		r.mu.Unlock()
		if err != nil {
			if ctx.Err() == nil {
				r.log.Warn("records for the next start could not be stored on a server", "server", s.Name, "error",
					plain(err))
			}
			return false
		}
	}
}

// putRecord replaces the record on s, whose copy is c, after comparing the versions of the two, and the name of the
// middleware that runs, unless that is one which does not acknowledge marks. The record is last: it says that the rest
// is complete.
func (r *Records) putRecord(s *Server, c *copyOf, l *link.Link) error {
	found, err := ask(l, marker.RecordKey, marker.RunningKey)
	if err != nil {
		return err
	}
	r.mu.Lock()
	keep := r.sees(c, found[1], stats.Now())
	if held, err := marker.Decode(found[0].value); err == nil && r.record.Follow(held) {
		r.advance()
	}
	record, running := r.record, r.running
	r.mu.Unlock()
	record.Server = s.Name
	value, err := record.Encode()
	if err == nil && running != "" && !keep {
		_, err = found[1].replace(l, marker.RunningKey, []byte(running))
	}
	if err != nil {
		return err
	}
	return l.Set(marker.RecordKey, value, 0)
}
