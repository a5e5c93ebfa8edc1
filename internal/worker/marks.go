package worker

import (
	"context"
	"slices"
	"time"

	"mcmw/internal/backend"
	"mcmw/internal/request"
	"mcmw/internal/stats"
)

// What must be known before a write is answered that a server missed takes longer to tell than a request may take: no round waits for it.
//
//	worker ---> a server missed a write (noteMissed) ---> the part is complete: the servers' answer is kept, and the batch passed on (leaveUnmarked)
//	                                                        |
//	            the server's detour, a patient worker <-----'
//	              waits until it is known (awaitMarked), and answers

// markWithin is how long a write waits for that.
const markWithin = 2 * time.Second

// marks are the round's writes that servers missed.
type marks struct {
	any      bool // there are some, or such that waited
	missed   []missed
	flushAll bool // a flush_all is under way
}

type missed struct{ request, server int32 }

// noteFlush says, once a flush_all is done, that the servers have lost what is known of them.
func (w *Worker) noteFlush() {
	for i := range w.requests {
		if w.marks.flushAll && w.requests[i].done && w.planner.Requests[i].IsFlush() {
			w.marks.flushAll = false
			for s, server := range w.options.Servers {
				server.Flushed()
				w.noteUnmarked(int32(i), int32(s))
			}
		}
	}
}

// noteUnmarked notes that server missed requests[i].
func (w *Worker) noteUnmarked(i, server int32) {
	w.marks.any = true
	w.marks.missed = append(w.marks.missed, missed{i, server})
}

// leaveUnmarked leaves the first request of p of which is not known yet which servers missed it, and what is behind it, to a later round. The
// portions of a reply but for the last don't wait.
func (w *Worker) leaveUnmarked(p *part) {
	for i := p.first; i < p.last; i++ {
		if r := &w.planner.Requests[i]; r.Settled {
			if !r.Unmarked.Waits() {
				continue
			}
		} else {
			unmarked := w.unmarkedOf(i)
			if unmarked == nil || w.planner.Partial(i) {
				continue
			}
			w.settleFor(i, unmarked)
		}
		w.leave(p, i)
		for j := i; j < p.last; j++ {
			w.planner.Forget(j)
		}
		p.last = i
	}
}

// unmarkedOf returns the servers of which is not known yet that they missed requests[i]; nil: there is none.
func (w *Worker) unmarkedOf(i int32) *request.Unmarked {
	var list []request.Missed
	for _, m := range w.marks.missed {
		server := w.options.Servers[m.server]
		if m.request != i || !server.Unmarked() || slices.ContainsFunc(list, func(in request.Missed) bool { return in.Server == server }) {
			continue
		}
		of := request.Missed{Server: server}
		if w.options.Pools[w.options.Router.Of(int(m.server)).Number()].Barring {
			w.aside.Reset()
			of.Withhold = w.planner.Withhold(i, m.server, &w.aside)
			of.Refusal = string(w.aside.AppendFrom(nil, 0))
		}
		list = append(list, of)
	}
	if list == nil {
		return nil
	}
	return &request.Unmarked{Servers: list, Until: stats.Now() + int64(markWithin)}
}

// awaitMarked reports whether requests[i], the last of the round and the next of b, waits for nothing any more. A patient worker waits with it, if
// nothing else is in the round; any other passes the batch to one.
func (w *Worker) awaitMarked(ctx context.Context, b *request.Batch, i int32) bool {
	w.marks.any = true
	u := w.planner.Requests[i].Unmarked
	if !u.Waits() {
		return true
	}
	for k := 0; k < len(u.Servers); {
		m := u.Servers[k]
		s := slices.IndexFunc(w.options.Servers, func(server *backend.Server) bool { return server == m.Server })
		switch {
		case !m.Server.Unmarked():
		case s < 0: // it is none any more
			u.Servers = slices.Delete(u.Servers, k, k+1)
			continue
		case !w.member.Patient:
			w.redirect(b, s)
			return false
		case i > 0:
			return false
		case !awaitMark(ctx, m.Server, u.Until):
			w.refuseUnmarked(i, m)
			u.Servers = slices.Delete(u.Servers, k, k+1)
			continue
		}
		k++
	}
	w.began = stats.Now()
	w.flushed = w.began
	return true
}

// refuseUnmarked answers requests[i] with an error if it must not be answered with success before it is known that m missed it.
func (w *Worker) refuseUnmarked(i int32, m request.Missed) {
	if !m.Withhold {
		return
	}
	m.Server.Withheld(1)
	r := w.planner.Requests[i].Request
	r.Result = stats.ResultServerError
	setAnswer(r, m.Refusal)
}

// awaitMark waits until it is known that server missed writes, at most until a time as stats.Now.
func awaitMark(ctx context.Context, server request.Marker, until int64) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(until-stats.Now()))
	defer cancel()
	return server.AwaitMarked(ctx)
}
