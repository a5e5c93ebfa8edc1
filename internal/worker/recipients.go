package worker

import (
	"mcmw/internal/protocol"
	"mcmw/internal/request"
)

// answerCopied adds the planner's answer to requests[i] to out, and tells the recipients of its keys' pools of it.
func (w *Worker) answerCopied(i int32) (rest int) {
	r := &w.planner.Requests[i]
	if !w.copier.Begin(&r.Request.Request, r.ClientKey()) {
		rest = w.planner.Answer(i, &w.out, w.options.StatsText)
		if r.Has(protocol.Writes) && !r.Settled { // a settled write was copied when the servers had answered it
			result, _ := w.planner.Result(i)
			w.copier.Write(&r.Request.Request, r.ClientKey(), result, w.orderOf(i))
		}
		return rest
	}
	w.copier.Out = &w.out
	rest = w.planner.Answer(i, w.copier, w.options.StatsText)
	result, _ := w.planner.Result(i)
	w.copier.Read(result, rest, w.orderOf(i))
	if r.Has(protocol.Writes) {
		w.copier.Write(&r.Request.Request, r.ClientKey(), result, w.orderOf(i))
	}
	return rest
}

// orderOf says when requests[i] was served.
func (w *Worker) orderOf(i int32) request.Order {
	r := &w.requests[i]
	return request.Order{
		Worker: w.owner(), Index: i, Dequeued: r.Dequeued, Received: r.Received,
		Locked: r.locked,
	}
}
