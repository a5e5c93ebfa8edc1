package worker

import (
	"bytes"
	"time"

	"mcmw/internal/hotkeys"
	"mcmw/internal/protocol"
	"mcmw/internal/stats"
)

// barred are the round's writes, whose keys are not answered from memory meanwhile; see hotkeys.Values.
type barred struct {
	writes  []barredWrite
	flushes []int32 // their exptimes
	room    []byte  // scratch
}

// barredWrite is a write of requests[request].
type barredWrite struct {
	hotkeys.Write
	request int32
}

// barHot says, before requests[i], a write, is sent, that the values of its keys are about to change.
func (w *Worker) barHot(i int32) {
	r := &w.planner.Requests[i]
	switch r.NumKeys {
	case 0:
		w.options.Hot.BeginFlush()
		w.barred.flushes = append(w.barred.flushes, r.Expiry)
	case 1:
		w.barred.writes = append(w.barred.writes, barredWrite{w.options.Hot.Begin(r.ClientKey()), i})
	default:
		for key := range bytes.SplitSeq(r.Keys, []byte(" ")) {
			w.barred.writes = append(w.barred.writes, barredWrite{w.options.Hot.Begin(key), i})
		}
	}
}

// unbarHot says, at the end of a round, that the round's writes reach no server any more: servers that did not
// acknowledge one are not read until they have lost its key. Values that a set has stored on all servers of its key are
// kept for readers.
func (w *Worker) unbarHot() {
	for k := range w.barred.writes {
		b := &w.barred.writes[k]
		if w.planner.Stored(b.request) {
			r := &w.planner.Requests[b.request]
			life := time.Duration(protocol.LifeStored(r.Expiry))
			it := r.Stored()
			w.barred.room = it.Append(w.barred.room[:0])
			w.options.Hot.Keep(&b.Write, hotkeys.Plain, w.dequeued, life, w.barred.room, r.Data, textEnd)
			if version := r.Version(); version != 0 {
				it.CAS, it.HasCAS = version, true
				w.barred.room = it.Append(w.barred.room[:0])
				w.options.Hot.Keep(&b.Write, hotkeys.WithCAS, w.dequeued, life, w.barred.room, r.Data, textEnd)
			}
		}
		w.options.Hot.End(&b.Write)
	}
	for _, exptime := range w.barred.flushes {
		w.options.Hot.EndFlush(exptime, stats.Now(), time.Now())
	}
	w.barred.writes, w.barred.flushes = w.barred.writes[:0], w.barred.flushes[:0]
}

var textEnd = []byte(protocol.TextEnd)

// wantHot makes requests[i], a get that was planned last and whose reply readers want, also ask how long the item
// lives, unless its value is being written.
func (w *Worker) wantHot(i int32) {
	token, ok := w.options.Hot.Token(w.requests[i].Wanted)
	s := w.planner.Asked(i)
	if !ok || s < 0 {
		return
	}
	if server := w.options.Servers[s]; !server.TellsExpiry() {
		if w.options.Hot.FirstUntold() {
			w.options.Log.Warn("hot keys of a server are not served from memory: it does not tell when items expire; "+
				"memcached 1.6.24 or later does", "server", server.Name)
		}
		return
	}
	w.planner.AskLife(i)
	w.requests[i].wanted, w.requests[i].token = true, token
}

// keepHot keeps the reply to requests[i], which was answered.
func (w *Worker) keepHot(i int32) {
	if reply, life, ok := w.planner.Life(i); ok {
		r := &w.planner.Requests[i]
		w.options.Hot.Put(r.Wanted, w.requests[i].token, r.ClientKey(), reply, w.dequeued, time.Duration(life))
	}
}
