package worker

import (
	"bytes"
	"context"
	"slices"

	"mcmw/internal/protocol"
)

// maxTouchLine bounds the line of a gat that is made here, bytes: unlike a get's, memcached may refuse one beyond 2,048
// bytes.
const maxTouchLine = 1900

// planRetrieval plans get, gets, gat and gats.
func (w *Worker) planRetrieval(ctx context.Context, i int32) {
	r := &w.requests[i]
	w.takePortion(r)
	n := w.options.Router.N()
	// cas tokens are the first server's, and a gat is a write: it goes there, too, and touches the other copies.
	anywhere := n == len(w.conns) && w.readsAny(r)
	switch {
	case r.Answer != "":
		w.planByPlacement(ctx, i) // makes lines of its own
	case len(w.conns) == 1 && r.whole() && (!r.touches() || len(r.Head) <= maxTouchLine):
		w.forward(ctx, i, 0)
	case anywhere && r.NumKeys > 1 && w.options.Sharded:
		w.planEvenly(ctx, i)
	case anywhere && r.whole():
		w.forward(ctx, i, w.choose().server)
	default:
		w.planByPlacement(ctx, i)
	}
}

// mayRead reports whether a read may go to server s.
func (w *Worker) mayRead(s int) bool {
	return w.options.Servers[s].Readable() && (w.exclude == nil || !w.exclude[s])
}

// readable returns those of servers that a read may go to; only if there is no other, those that are suspect.
func (w *Worker) readable(servers []int) []int {
	for _, suspects := range []bool{false, true} {
		w.servers = w.servers[:0]
		for _, s := range servers {
			if w.mayRead(s) && (suspects || !w.options.Servers[s].Suspected()) {
				w.servers = append(w.servers, s)
			}
		}
		if len(w.servers) > 0 {
			break
		}
	}
	return w.servers
}

// firstOf returns the first of a key's servers that may be read from, the first if none may: it answers gets, and compares
// what a conditional write expects.
func (w *Worker) firstOf(holders []int) int {
	for _, s := range holders {
		if w.mayRead(s) {
			return s
		}
	}
	return holders[0]
}

// firstServer returns the first server of key that may be read from.
func (w *Worker) firstServer(key []byte) int {
	if w.options.Router.N() == 1 {
		return w.options.Router.Primary(key)
	}
	w.holders = w.options.Router.Replicas(key, w.holders[:0])
	return w.firstOf(w.holders)
}

// planEvenly splits a get whose keys every server holds into runs of consecutive keys, whose lengths differ by at most
// one.
func (w *Worker) planEvenly(ctx context.Context, i int32) {
	r := &w.requests[i]
	chosen := w.choose().server
	servers := w.readable(w.all)
	if len(servers) == 0 {
		servers = w.all
	}
	runs := min(len(servers), r.NumKeys)
	first := max(slices.Index(servers, chosen), 0)
	rest := r.Keys
	for run := range runs {
		size := r.NumKeys / runs
		if run < r.NumKeys%runs {
			size++
		}
		end := 0
		for range size {
			end += wordEnd(rest[end:])
		}
		keys := rest[:end]
		rest = rest[end:]
		_, conn := w.open(ctx, i, servers[(first+run)%len(servers)], protocol.Get, keys)
		if conn == nil {
			continue
		}
		conn.Out.AddString("get ")
		conn.Out.Add(keys)
		conn.Out.AddString(protocol.CRLF)
	}
}

// wordEnd returns the offset behind the first word of s, blanks before it included.
func wordEnd(s []byte) int {
	i := 0
	for i < len(s) && s[i] == ' ' {
		i++
	}
	if j := bytes.IndexByte(s[i:], ' '); j >= 0 {
		return i + j
	}
	return len(s)
}

// nextWord returns the first word of s, and what follows it.
func nextWord(s []byte) (word, rest []byte) {
	end := wordEnd(s)
	return bytes.TrimLeft(s[:end], " "), s[end:]
}

// planByPlacement plans one call per server for the keys that are read there, in the order of the request; more for a long gat.
func (w *Worker) planByPlacement(ctx context.Context, i int32) {
	r := &w.requests[i]
	base := len(w.keyCalls)
	// First the server of each key, which the loop below replaces by the call.
	common := int32(-1)
	for rest := r.Keys; len(rest) > 0; {
		var key []byte
		key, rest = nextWord(rest)
		if len(key) == 0 {
			break
		}
		s := int32(w.readServer(r, key))
		if len(w.keyCalls) == base {
			common = s
		} else if common != s {
			common = -1
		}
		w.keyCalls = append(w.keyCalls, s)
	}
	touching := r.touches()
	if common >= 0 && r.Answer == "" && r.whole() && (!touching || len(r.Head) <= maxTouchLine) {
		w.forward(ctx, i, int(common))
		w.keyCalls = w.keyCalls[:base]
	} else {
		r.keyCalls = int32(base)
		for s := range w.conns {
			w.planKeysOf(ctx, i, s, w.keyCalls[base:])
		}
	}
	if touching && w.options.Router.N() > 1 {
		w.planTouches(ctx, i)
	}
}

// readServer returns the server to read key from.
func (w *Worker) readServer(r *pending, key []byte) int {
	if !w.readsAny(r) || w.options.Router.N() == 1 {
		return w.firstServer(key)
	}
	p := w.choose()
	w.holders = w.options.Router.Replicas(key, w.holders[:0])
	return w.best(w.holders, p.turn)
}

// planKeysOf plans the calls for the keys of requests[i] that are server s's, and notes in placed, which holds the server
// of each key, the call that asks for it as its complement.
func (w *Worker) planKeysOf(ctx context.Context, i int32, s int, placed []int32) {
	r := &w.requests[i]
	touching := r.touches()
	start, keys := len(w.lines), 0
	rest := r.Keys
	for k := range placed {
		var key []byte
		key, rest = nextWord(rest)
		if placed[k] != int32(s) {
			continue
		}
		if keys > 0 && touching && len(w.lines)-start+len(key) > maxTouchLine {
			w.sendLine(ctx, i, s, start, keys)
			start, keys = len(w.lines), 0
		}
		if start == len(w.lines) {
			w.lines = append(append(w.lines, r.Command.String()...), ' ')
			if touching {
				w.lines = append(append(w.lines, r.Arg...), ' ')
			}
			keys = len(w.lines)
		} else {
			w.lines = append(w.lines, ' ')
		}
		w.lines = append(w.lines, key...)
		placed[k] = ^int32(len(w.calls))
	}
	if keys > 0 {
		w.sendLine(ctx, i, s, start, keys)
	}
}

// sendLine sends lines[start:], a retrieval whose keys begin at keys, to server s.
func (w *Worker) sendLine(ctx context.Context, i int32, s, start, keys int) {
	end := len(w.lines)
	w.lines = append(w.lines, protocol.CRLF...)
	_, conn := w.open(ctx, i, s, w.requests[i].Command, w.lines[keys:end:end])
	if conn != nil {
		conn.Out.Add(w.lines[start:])
	}
}

// planTouches sets the expiry of a gat's keys on the replicas that it does not read.
func (w *Worker) planTouches(ctx context.Context, i int32) {
	r := &w.requests[i]
	for rest := r.Keys; len(rest) > 0; {
		var key []byte
		key, rest = nextWord(rest)
		if len(key) == 0 {
			break
		}
		w.holders = w.options.Router.Replicas(key, w.holders[:0])
		for _, s := range w.holders {
			if s == w.firstOf(w.holders) {
				continue
			}
			c, conn := w.open(ctx, i, s, protocol.Touch, key)
			c.hidden = true
			if conn == nil {
				continue
			}
			conn.Out.AddString("touch ")
			conn.Out.Add(key)
			conn.Out.AddString(" ")
			conn.Out.Add(r.Arg)
			conn.Out.AddString(protocol.CRLF)
		}
	}
}
