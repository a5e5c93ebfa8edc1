package shadow

import (
	"context"
	"time"

	"mcmw/internal/protocol"
	"mcmw/internal/request"
	"mcmw/internal/stats"
)

// batchBytes bounds the size of a batch that consists of several parcels: a batch of this size gets no further parcel.
const batchBytes = 1 << 20

// Run sends the copies, until ctx is done and no batch is in progress. l are the limits of requests. put queues a batch
// for the shadow's workers. The shadow has to answer each batch.
func (f *Feed) Run(ctx context.Context, l *protocol.Limits, put func(*request.Batch)) {
	j := &judge{feed: f, Caller: request.NewCaller()}
	var batch []*parcel
	var texts [][]byte
	for {
		var p *parcel
		select {
		case <-ctx.Done():
			return
		case p = <-f.parcels:
		}
		batch, texts, j.copies, j.next = batch[:0], texts[:0], j.copies[:0], 0
		size, taken := 0, int64(0)
		for p != nil {
			batch, texts, j.copies = append(batch, p), append(texts, p.text), append(j.copies, p.copies...)
			size, taken = size+len(p.text), taken+p.taken
			p = nil
			if len(j.copies)+maxParcel <= request.MaxBatch && size < batchBytes {
				select {
				case p = <-f.parcels:
				default:
				}
			}
		}
		_ = j.Call(texts, l, put, j.element)
		j.end() // with none answered if a text can't be decoded
		f.bytes.Add(-taken)
		for _, p := range batch {
			p.release()
		}
	}
}

const (
	// writeSlots is the number of slots for the latest writes. suspicions is the number of slots for keys with
	// different answers, and memory is how long one of these keeps its slot from other keys, ns.
	writeSlots = 1 << 12
	suspicions = 1 << 12
	memory     = int64(time.Minute)
)

// judge asks the shadow. It compares answers, and keeps none. It belongs to Run, and during a Call to the shadow's
// worker.
type judge struct {
	request.Caller
	feed *Feed

	copies []copied // of the batch
	next   int      // the first copy that is not answered
	reply  answer   // what the reply to it has said so far

	writes    [writeSlots]latest
	suspected [suspicions]suspicion
}

// latest is the latest write in a slot.
type latest struct {
	key uint64
	request.Order
}

// suspicion is a difference that was seen once: the answers of the client's pool and of the shadow for a key, as
// digests.
type suspicion struct {
	key, client, shadow uint64
	since               int64 // when both had answered, ns as stats.Now
}

// element takes an element of the reply to the next copy.
func (j *judge) element(rep *protocol.Reply, element []byte) {
	switch {
	case j.next == len(j.copies):
		return
	case rep.Kind == protocol.ReplyValue:
		j.reply = answerOf(element, true)
		return
	case rep.Kind.IsMeta():
		j.reply = answerOf(element, true)
	}
	j.conclude(rep.Kind.IsError())
}

// conclude ends the next copy.
func (j *judge) conclude(failed bool) {
	c := &j.copies[j.next]
	shadow := j.reply
	j.next, j.reply = j.next+1, answer{}
	if c.write {
		j.wrote(c, failed)
	}
	result := stats.ShadowIgnored
	switch {
	case failed:
		result = stats.ShadowError
	case c.compare:
		result = j.compare(c, shadow)
	}
	j.feed.counts.Answered(result, stats.Now()-c.order.Received)
}

// wrote decides whether a write makes its key doubtful or ends the doubt.
func (j *judge) wrote(c *copied, failed bool) {
	d := &j.feed.doubts
	switch {
	case c.flush && failed:
		d.flush.Store(stats.Now())
		return
	case c.flush:
		d.flushed(c.order.Dequeued)
		return
	}
	if s := j.suspicion(c.key); s.key == c.key {
		*s = suspicion{}
	}
	last := &j.writes[c.key%writeSlots]
	inOrder := last.Received <= c.order.Dequeued || last.key == c.key && last.Before(&c.order)
	switch {
	case failed:
		d.add(c.key, stats.Now())
	case !inOrder:
		d.add(c.key, max(last.Received, c.order.Received))
	case c.plain:
		d.clear(c.key, c.order.Dequeued)
	}
	if last.Received <= c.order.Received {
		*last = latest{c.key, c.order}
	}
}

// suspicion returns the slot of the key with that hash.
func (j *judge) suspicion(key uint64) *suspicion { return &j.suspected[key%suspicions] }

// compare compares the shadow's answer with the client's.
func (j *judge) compare(c *copied, shadow answer) stats.ShadowResult {
	s := j.suspicion(c.key)
	if c.told.equal(shadow) {
		if s.key == c.key {
			*s = suspicion{}
		}
		return stats.ShadowSame
	}
	if j.feed.doubts.has(c.key) {
		return stats.ShadowUnknown
	}
	now := suspicion{c.key, c.told.digest(), shadow.digest(), c.order.Received}
	switch known := s.key == c.key && s.client == now.client && s.shadow == now.shadow; {
	case !shadow.held:
		return stats.ShadowMiss
	case !c.told.held:
		return stats.ShadowHit
	case known && c.order.Dequeued-s.since >= int64(j.feed.options.Load().Within):
		return stats.ShadowDifferent
	case !known && (s.key == c.key || now.since-s.since > memory || s.since == 0):
		*s = now
	}
	return stats.ShadowUnknown
}

// end ends the copies that got no answer, as failed.
func (j *judge) end() {
	for j.next < len(j.copies) {
		j.conclude(true)
	}
}
