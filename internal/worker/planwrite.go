package worker

import (
	"bytes"
	"context"

	"mcmw/internal/protocol"
	"mcmw/internal/route"
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

// key returns the key of a write as the servers know it.
func (r *pending) key() []byte {
	if r.Command == protocol.Meta {
		return r.meta.Key
	}
	return r.Keys
}

// planWrite sends a write to every server that holds the key. A conditional one goes to the first alone at first; it is a
// barrier, because what follows it in the batch may read what its second step writes.
func (w *Worker) planWrite(ctx context.Context, i int32) (barrier bool) {
	r := &w.requests[i]
	if len(w.conns) == 1 {
		w.forward(ctx, i, 0)
		return false
	}
	w.holders = w.options.Router.Replicas(r.key(), w.holders[:0])
	if len(w.holders) == 1 {
		w.forward(ctx, i, w.holders[0])
		return false
	}
	if r.conditional() {
		r.step = stepCompare
		w.forward(ctx, i, w.firstOf(w.holders))
		return true
	}
	for _, s := range w.holders {
		w.forward(ctx, i, s)
	}
	return false
}

// planMeta plans a meta command by the rules of its classic form.
func (w *Worker) planMeta(ctx context.Context, i int32) (barrier bool) {
	r := &w.requests[i]
	switch {
	case len(w.conns) == 1 || r.NumKeys == 0:
		w.forward(ctx, i, 0)
	case r.meta.Writes():
		return w.planWrite(ctx, i)
	// A cas is the first server's, and so is what me shows of an item.
	case r.readsFirst():
		w.forward(ctx, i, w.firstServer(r.meta.Key))
	case w.options.Router.N() == len(w.conns) && w.options.Router.Read() != route.ReadPrimary:
		w.forward(ctx, i, w.choose().server)
	default:
		w.forward(ctx, i, w.readServer(protocol.Get, r.meta.Key))
	}
	return false
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
	w.holders = w.options.Router.Replicas(r.key(), w.holders[:0])
	if r.meta.Invalidate {
		// Whether the item was stored as stale can't be told from the reply, and not be copied.
		for _, s := range w.holders {
			if s != first {
				w.deleteKey(ctx, i, s)
			}
		}
		return
	}
	start := len(w.lines)
	if r.Command == protocol.Cas {
		w.lines = appendAsSet(w.lines, r.Head)
	} else {
		w.lines = protocol.AppendMeta(w.lines, r.Head, "Cq")
	}
	line := w.lines[start:]
	command := r.Command
	if command == protocol.Cas {
		command = protocol.Set
	}
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
	if r.Command == protocol.Meta {
		w.planMeta(ctx, i)
	} else {
		w.planRetrieval(ctx, i)
	}
	w.exclude = nil
}

// appendAsSet appends the set that stores what the cas with command line head stores.
func appendAsSet(dst, head []byte) []byte {
	dst = append(dst, "set"...)
	dst = append(dst, head[len("cas"):bytes.LastIndexByte(head, ' ')]...)
	return append(dst, protocol.CRLF...)
}

// planDeletion removes the key of a value that was refused for its size, as memcached does: the old value must not
// outlive an attempt to replace it.
func (w *Worker) planDeletion(ctx context.Context, i int32) {
	w.holders = w.options.Router.Replicas(w.requests[i].key(), w.holders[:0])
	for _, s := range w.holders {
		w.deleteKey(ctx, i, s)
	}
}

// deleteKey deletes the key of requests[i] on server s.
func (w *Worker) deleteKey(ctx context.Context, i int32, s int) {
	r := &w.requests[i]
	command := protocol.Delete
	if r.meta.Base64 {
		command = protocol.Meta
	}
	c, conn := w.open(ctx, i, s, command, r.Keys)
	c.hidden = true
	if conn == nil {
		return
	}
	if r.meta.Base64 {
		conn.Out.AddString("md ")
		conn.Out.Add(r.Keys)
		conn.Out.AddString(" b\r\n")
		return
	}
	start := len(w.lines)
	w.lines = append(protocol.AppendDelete(w.lines, r.Keys), protocol.CRLF...)
	conn.Out.Add(w.lines[start:])
}
