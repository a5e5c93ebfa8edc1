package worker

import (
	"context"

	"mcmw/internal/protocol"
)

// step is how far a request has come.
type step uint8

const (
	// stepSend: the request is with the servers it needs.
	stepSend step = iota
	// stepRetry: a read that a server failed is with others.
	stepRetry
	// stepCompare: a conditional write is with the key's first server, which alone knows the cas it names.
	stepCompare
	// stepCopy: what the first server stored is being copied to the other replicas.
	stepCopy
	// stepRepair: the key is being deleted where a replica does not have the state that was answered.
	stepRepair
)

// planWrite sends a write to every server that holds the key. A conditional one goes to the first alone at first; it is a
// barrier, because what follows it in the batch may read what its second step writes.
func (w *Worker) planWrite(ctx context.Context, i int32) (barrier bool) {
	r := &w.requests[i]
	if len(w.conns) == 1 {
		w.forward(ctx, i, 0)
		return false
	}
	w.holders = w.options.Router.Replicas(r.key, w.holders[:0])
	if len(w.holders) == 1 {
		w.forward(ctx, i, w.holders[0])
		return false
	}
	if r.Has(protocol.Conditional) {
		r.step = stepCompare
		w.forward(ctx, i, w.firstOf(w.holders))
		return true
	}
	for _, s := range w.holders {
		w.forward(ctx, i, s)
	}
	return false
}

// planItem plans a read of one key by a meta command.
func (w *Worker) planItem(ctx context.Context, i int32) {
	r := &w.requests[i]
	switch {
	case len(w.conns) == 1:
		w.forward(ctx, i, 0)
	case w.options.Router.N() == len(w.conns) && w.readsAny(r):
		w.forward(ctx, i, w.choose().server)
	default:
		w.forward(ctx, i, w.readServer(r, r.key))
	}
}

// planStep plans what requests[i] needs after the step that is done.
func (w *Worker) planStep(ctx context.Context, i int32) {
	r := &w.requests[i]
	r.first = int32(len(w.calls))
	r.last = r.first
	r.left = 1
	switch r.step {
	case stepRetry:
		w.planRetry(ctx, i)
		return
	case stepRepair:
		for _, s := range w.repairs[r.repair:r.repairEnd] {
			w.deleteKey(ctx, i, s)
		}
		return
	}
	first := int(w.calls[r.chosen].server)
	w.holders = w.options.Router.Replicas(r.key, w.holders[:0])
	if r.Has(protocol.Marks) {
		// Whether the item was stored as stale can't be told from the reply, and not be copied.
		for _, s := range w.holders {
			if s != first {
				w.deleteKey(ctx, i, s)
			}
		}
		return
	}
	start := len(w.lines)
	var command protocol.Command
	w.lines, command = r.AppendUnconditional(w.lines)
	line := w.lines[start:]
	for _, s := range w.holders {
		if s == first {
			continue
		}
		_, conn := w.open(ctx, i, s, command, r.Keys)
		if conn == nil {
			continue
		}
		conn.Out.Add(line)
		conn.Out.Add(r.Data)
	}
}

// planRetry plans a read again, without the servers that failed it.
func (w *Worker) planRetry(ctx context.Context, i int32) {
	r := &w.requests[i]
	clear(w.failed)
	for k := r.retryFirst; k < r.retryLast; k++ {
		if c := &w.calls[k]; c.request == i && c.failed {
			w.failed[c.server] = true
		}
	}
	w.exclude = w.failed
	r.keyCalls = -1
	if r.Command.IsRetrieval() {
		w.planRetrieval(ctx, i)
	} else {
		w.planItem(ctx, i)
	}
	w.exclude = nil
}

// planDeletion removes the key of a value that was refused for its size, as memcached does: the old value must not
// outlive an attempt to replace it.
func (w *Worker) planDeletion(ctx context.Context, i int32) {
	w.holders = w.options.Router.Replicas(w.requests[i].key, w.holders[:0])
	for _, s := range w.holders {
		w.deleteKey(ctx, i, s)
	}
}

// deleteKey deletes the key of requests[i] on server s.
func (w *Worker) deleteKey(ctx context.Context, i int32, s int) {
	r := &w.requests[i]
	start := len(w.lines)
	var command protocol.Command
	w.lines, command = r.AppendDeletion(w.lines)
	line := w.lines[start:]
	c, conn := w.open(ctx, i, s, command, r.Keys)
	c.hidden = true
	if conn != nil {
		conn.Out.Add(line)
	}
}
