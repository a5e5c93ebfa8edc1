package worker

import (
	"context"
	"slices"
	"time"

	"mcmw/internal/backend"
	"mcmw/internal/request"
	"mcmw/internal/stats"
)

// If a server missed a write, the write must not be answered before all mcmw instances know this (the mark is set). No
// round waits for that.
//
//	worker ---> a server missed a write (noteMissed) ---> the part is complete: the servers' answer is kept, and the batch is passed on (leaveUnmarked)
//	                                                        |
//	            the server's detour, a patient worker <-----'
//	              waits until the mark is set (awaitMarked), and answers

// marks are the round's writes that servers missed.
type marks struct {
	any      bool // there are such writes, or writes that have waited for a mark
	missed   []missed
	flushAll bool // the round has a flush_all
}

// missed says that server missed requests[request].
type missed struct{ request, server int32 }

// noteFlush says, when a flush_all has ended, that the servers have also lost the records that mcmw keeps on them, such
// as marks.
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

// leaveUnmarked leaves the first request of p that has to wait for a mark, and the requests after it, to a later round.
// The portions of a reply do not wait, except the last.
func (w *Worker) leaveUnmarked(p *part) {
	for i := p.first; i < p.last; i++ {
		if r := &w.requests[i]; r.Settled {
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
		w.deferFrom(p, i)
		for j := i; j < p.last; j++ {
			w.planner.Forget(j)
		}
		p.last = i
	}
}

// unmarkedOf returns the servers that missed requests[i] and are not marked yet; nil: there are none.
func (w *Worker) unmarkedOf(i int32) *request.Unmarked {
	var list []request.Missed
	for _, m := range w.marks.missed {
		server := w.options.Servers[m.server]
		if m.request != i || !server.Unmarked() ||
			slices.ContainsFunc(list, func(in request.Missed) bool { return in.Server == server }) {
			continue
		}
		of := request.Missed{Server: server}
		if w.barring(int(m.server)) {
			w.aside.Reset()
			of.Withhold = w.planner.Withhold(i, m.server, &w.aside)
			of.Refusal = string(w.aside.AppendFrom(nil, 0))
		}
		list = append(list, of)
	}
	if list == nil {
		return nil
	}
	u := &request.Unmarked{Servers: list, Until: w.end(i, w.timeout(i))}
	if slices.ContainsFunc(list, func(m request.Missed) bool { return m.Withhold && m.Refusal != "" }) {
		u.Decider, u.Deposed = w.deposed(i)
	}
	return u
}

// barring reports whether a write that server s missed is answered with success only when no mcmw instance reads s.
func (w *Worker) barring(s int) bool { return w.options.Pools[w.options.Router.Of(s).Number()].Barring }

// awaitMarked reports whether requests[i], the last of the round and the next of b, has no mark left to wait for. A
// patient worker waits for it, if nothing else is in the round. Any other worker passes the batch to a patient one.
func (w *Worker) awaitMarked(ctx context.Context, b *request.Batch, i int32) bool {
	w.marks.any = true
	u := w.requests[i].Unmarked
	if !u.Waits() {
		w.refuseDeposed(i, u)
		return true
	}
	for k := 0; k < len(u.Servers); {
		m := u.Servers[k]
		s := slices.IndexFunc(w.options.Servers, func(server *backend.Server) bool { return server == m.Server })
		switch {
		case !m.Server.Unmarked():
		case s < 0: // the server is not used any more
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
	w.refuseDeposed(i, u)
	w.began = stats.Now()
	w.flushed = w.began
	return true
}

// refuseDeposed answers requests[i] with an error if a server that decided it ceased to decide while the request waited
// for a mark.
func (w *Worker) refuseDeposed(i int32, u *request.Unmarked) {
	if u.Deposed == nil || !u.Deposed() {
		return
	}
	r := w.requests[i].Request
	r.Result = stats.ResultServerError
	setAnswer(r, w.planner.TextUndecided(u.Decider))
}

// refuseUnmarked answers requests[i] with an error if a success must not be reported before m's server is marked.
func (w *Worker) refuseUnmarked(i int32, m request.Missed) {
	if !m.Withhold {
		return
	}
	m.Server.Withheld(1)
	r := w.requests[i].Request
	r.Result = stats.ResultServerError
	setAnswer(r, m.Refusal)
}

// awaitMark waits until server is marked, at most until a time as stats.Now.
func awaitMark(ctx context.Context, server request.Marker, until int64) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(until-stats.Now()))
	defer cancel()
	return server.AwaitMarked(ctx)
}
