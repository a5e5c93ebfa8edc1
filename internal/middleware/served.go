package middleware

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"mcmw/internal/hotkeys"
	"mcmw/internal/protocol"
	"mcmw/internal/request"
	"mcmw/internal/stats"
	"mcmw/internal/wire"
)

const (
	// chooseEvery is how often the keys that are served from memory are chosen anew.
	chooseEvery = time.Second
	// fillEvery is the least time from one fetch of values to the next.
	fillEvery = time.Millisecond
	// fillAtOnce is how many values are asked for in one batch.
	fillAtOnce = 16
	// leastLife is what an item must have left to be served, by the server's clock, which counts seconds: it then lives for hotkeys.MaxAge at least.
	leastLife = 2
	// itemOverhead is the most that an item's size is more than that of its value, bytes.
	itemOverhead = 512
)

// filler fetches the values that are served from memory, as a client does: what is asked for goes through the queue and the workers. So whatever keeps a
// client from reading an old value keeps one out of memory.
type filler struct {
	m      *Middleware
	values *hotkeys.Values
	warned bool // of servers that don't tell when an item ends
}

// fillServed chooses the keys that are served from memory, and fetches values that readers miss, until ctx is done. The workers must run until it
// returns.
func (m *Middleware) fillServed(ctx context.Context) {
	f := filler{m: m, values: m.hot.Served}
	var filling sync.WaitGroup
	defer filling.Wait()
	choose := time.NewTicker(chooseEvery)
	defer choose.Stop()
	pause := time.NewTimer(0)
	defer pause.Stop()
	var wanted []*hotkeys.Entry
	for {
		select {
		case <-ctx.Done():
			return
		case <-choose.C:
			f.choose()
			continue
		case <-f.values.Wake():
		}
		wanted = f.values.Wanted(wanted[:0])
		// A server that stalls holds up what is asked of it alone.
		router, of := m.current.Load().router, map[int][]*hotkeys.Entry{}
		for _, e := range wanted {
			primary := router.Primary([]byte(e.Key))
			of[primary] = append(of[primary], e)
		}
		for _, entries := range of {
			for some := range slices.Chunk(entries, fillAtOnce) {
				filling.Go(func() { f.fill(some) })
			}
		}
		pause.Reset(fillEvery)
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
	}
}

// choose chooses the keys.
func (f *filler) choose() {
	var keys []string
	if old := f.untold(); old == "" {
		keys = f.m.hot.Hottest(stats.Now())
	} else if !f.warned {
		f.warned = true
		f.m.current.Load().options.Log.Warn("no hot keys are served from memory: a server does not tell when items end; memcached 1.6.24 does", "server", old)
	}
	f.values.Serve(keys)
}

// untold returns a server that does not tell an item without an expiry from one that ends in a second; "": all do.
func (f *filler) untold() string {
	for _, s := range f.m.current.Load().servers {
		if !s.TellsExpiry() {
			return s.Name
		}
	}
	return ""
}

// fill fetches the values of entries.
func (f *filler) fill(entries []*hotkeys.Entry) {
	unknown := slices.DeleteFunc(slices.Clone(entries), func(e *hotkeys.Entry) bool { return e.Fits })
	f.ask(unknown, false)
	f.ask(slices.DeleteFunc(slices.Clone(entries), func(e *hotkeys.Entry) bool { return !e.Fits }), true)
	for _, e := range entries {
		e.Done()
	}
}

// ask looks at the items of entries, and, with values, keeps their values. What has to be counted from is the moment before they are asked for.
func (f *filler) ask(entries []*hotkeys.Entry, values bool) {
	asked := stats.Now()
	tokens := make([]hotkeys.Token, 0, len(entries))
	free := entries[:0]
	var text []byte
	for _, e := range entries {
		token, ok := f.values.Token(e)
		if !ok {
			continue
		}
		free, tokens = append(free, e), append(tokens, token)
		if values {
			text = fmt.Appendf(text, "gets %s\r\n", e.Key)
		}
		text = fmt.Appendf(text, "me %s\r\n", e.Key)
	}
	if len(free) == 0 {
		return
	}
	rest := f.exchange(text)
	told := f.untold() == ""
	for i, e := range free {
		var value []byte
		if values {
			value, rest = cutValue(rest, e.Key)
		}
		var it item
		it, rest = cutItem(rest)
		e.Fits = it.fits()
		if !told || !it.lasts() || len(value) > hotkeys.MaxServedValue {
			value = nil
		}
		if values || !e.Fits {
			f.values.Put(e, tokens[i], value, asked)
		}
	}
}

// exchange queues text, requests, as a client's batch, and returns the replies.
func (f *filler) exchange(text []byte) []byte {
	limits := &f.m.current.Load().options.Limits
	c := &inner{answered: make(chan struct{}, 1)}
	b := request.GetBatch()
	b.Client, b.Buffer = c, request.GetBuffer(len(text))
	text = b.Buffer.B[:copy(b.Buffer.B, text)]
	now := stats.Now()
	for len(text) > 0 {
		b.Requests = append(b.Requests, request.Request{})
		r := &b.Requests[len(b.Requests)-1]
		n, _, err := limits.Decode(text, &r.Request)
		if n == 0 || err != nil {
			b.Release()
			return nil
		}
		r.Created, r.Enqueued = now, now
		text = text[n:]
	}
	f.m.registry.Net().Arrivals().Add(len(b.Requests))
	f.m.entrance.Put(b)
	<-c.answered
	return c.replies
}

// inner is a client within the process. It takes all replies at once.
type inner struct {
	replies  []byte
	answered chan struct{} // whoever answers -> exchange; one token, capacity 1, never closed
}

func (c *inner) Crowded() bool { return false }

func (c *inner) Reply(g *wire.Gather) int {
	c.replies = g.AppendFrom(c.replies, 0)
	return g.Len()
}

func (c *inner) Finish() { c.answered <- struct{}{} }

func (c *inner) Stall([]byte, *request.Batch) {
	panic("middleware: a client stalls that takes all replies")
}

// cutLine returns the first line of text, without its end, and what follows.
func cutLine(text []byte) (line, rest []byte) {
	line, rest, _ = bytes.Cut(text, []byte(protocol.CRLF))
	return line, rest
}

// cutValue takes the reply to a gets of key off text. It returns it as that to a get, nil if it has no value.
func cutValue(text []byte, key string) (reply, rest []byte) {
	line, rest := cutLine(text)
	head, ok := bytes.CutPrefix(line, []byte("VALUE "+key+" "))
	fields := bytes.Fields(head)
	if !ok || len(fields) != 3 {
		return nil, rest
	}
	size, err := strconv.Atoi(string(fields[1]))
	if err != nil || size < 0 || size > len(rest)-len(protocol.CRLF) {
		return nil, nil
	}
	data := rest[:size+len(protocol.CRLF)]
	end, rest := cutLine(rest[len(data):])
	if string(end)+protocol.CRLF != protocol.TextEnd {
		return nil, rest
	}
	reply = fmt.Appendf(nil, "VALUE %s %s %s\r\n", key, fields[0], fields[1])
	return append(append(reply, data...), protocol.TextEnd...), rest
}

// item is what me tells of an item; the zero item: nothing.
type item struct{ left, size int } // seconds, -1: without end; bytes

// cutItem takes the reply to an me off text. The key in it may be encoded, as it was when the item was stored.
func cutItem(text []byte) (it item, rest []byte) {
	line, rest := cutLine(text)
	told, ok := bytes.CutPrefix(line, []byte("ME "))
	if !ok {
		return item{}, rest
	}
	for field := range bytes.FieldsSeq(told) {
		name, value, _ := bytes.Cut(field, []byte("="))
		n, err := strconv.Atoi(string(value))
		switch {
		case err != nil:
		case string(name) == "exp":
			it.left = n
		case string(name) == "size":
			it.size = n
		}
	}
	return it, rest
}

// lasts reports whether the item lives for longer than its value is kept.
func (it item) lasts() bool { return it.left == -1 || it.left >= leastLife }

// fits reports whether the value may be small enough to be kept.
func (it item) fits() bool { return it.size > 0 && it.size <= hotkeys.MaxServedValue+itemOverhead }
