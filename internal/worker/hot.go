package worker

import (
	"bytes"

	"mcmw/internal/plan"
	"mcmw/internal/stats"
)

// barred is what the round's writes keep from being served from memory; see hotkeys.Values.
type barred struct {
	stripes []uint32
	flushes [][]byte // the lines, in the clients' buffers
}

// barHot says, before r, a write, is sent, that the values of its keys are about to change.
func (w *Worker) barHot(r *plan.Request) {
	switch r.NumKeys {
	case 0:
		w.options.Hot.BeginFlush()
		w.barred.flushes = append(w.barred.flushes, r.Head)
	case 1:
		w.barred.stripes = append(w.barred.stripes, w.options.Hot.Begin(r.Key()))
	default:
		for key := range bytes.SplitSeq(r.Keys, []byte(" ")) {
			w.barred.stripes = append(w.barred.stripes, w.options.Hot.Begin(key))
		}
	}
}

// unbarHot says, at the end of a round, that no server gets its writes any more: those that did not acknowledge one are not read before they have
// lost its key.
func (w *Worker) unbarHot() {
	for _, stripe := range w.barred.stripes {
		w.options.Hot.End(stripe)
	}
	for _, line := range w.barred.flushes {
		w.options.Hot.EndFlush(line, stats.Now())
	}
	w.barred = barred{w.barred.stripes[:0], w.barred.flushes[:0]}
}
