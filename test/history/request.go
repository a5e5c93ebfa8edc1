package history

import (
	"fmt"
	"slices"
	"strconv"
	"time"
)

// op is one request.
type op struct {
	kind   kind
	group  int
	due    time.Time
	form   form
	opaque uint32 // which the replies to its meta commands repeat
	keys   []*record
	floors []uint64 // of a get: what record.floor returned, by key
	addr   int      // number of the address that it is sent to
	seq    uint64   // write number; 0 for a get
}

// form is the syntax of a request.
type form uint8

const (
	classic form = iota
	meta         // one meta command
	quiet        // meta commands without replies to the usual outcome, and mn
	numForms
)

// String describes the request.
func (o *op) String() string {
	text := [numForms][numKinds]string{
		{"get", "set", "delete", "incr"},
		{"mg", "ms", "md", "ma"},
		{"mg q", "ms q", "md q", "ma q"},
	}[o.form][o.kind]
	for _, r := range o.keys {
		text += " " + r.key
	}
	if o.kind != get {
		text += fmt.Sprintf(" (write %d)", o.seq)
	}
	return text
}

// through notes that o is sent now to address number addr.
func (o *op) through(addr int) {
	o.addr, o.floors = addr, nil
	if o.kind != get {
		return
	}
	for _, r := range o.keys {
		o.floors = append(o.floors, r.floor(time.Now(), addr))
	}
}

// draw makes the next request. At first every key is written once. Then seven in ten requests are reads, some of
// several keys.
func (c *client) draw(own []*record, due time.Time) *op {
	o := &op{group: c.group, due: due, form: form(c.rng.IntN(int(numForms))), opaque: c.rng.Uint32()}
	populated := own[len(own)-1].issued.Load() > 0
	if !populated || c.rng.IntN(10) < 3 {
		r := own[c.rng.IntN(len(own))]
		if c.keys.hot && c.rng.IntN(2) == 0 {
			r = own[0] // the hot key of this client, if it has one
		}
		if !populated {
			r = own[slices.IndexFunc(own, func(r *record) bool { return r.issued.Load() == 0 })]
		}
		o.kind, o.keys, o.seq = set, []*record{r}, r.issued.Add(1)
		switch {
		case r.counts:
			// A repeated increment would count twice, and the reply to a quiet one does not say whether it was done.
			o.kind, o.form = count, min(o.form, meta)
		case deletes(o.seq):
			o.kind = del
		}
		return o
	}
	n := 1
	if o.form != meta && c.rng.IntN(4) == 0 {
		n = 2 + c.rng.IntN(maxKeys-1)
	}
	for range n {
		r := c.keys.draw(c.group, c.rng)
		if slices.Contains(o.keys, r) {
			continue
		}
		o.keys = append(o.keys, r)
	}
	return o
}

// append appends the request's bytes.
func (o *op) append(b []byte) []byte {
	switch {
	case o.form != classic:
		return o.appendMeta(b)
	case o.kind == set:
		value := appendValue(nil, o.keys[0].key, o.seq)
		b = fmt.Appendf(b, "set %s 7 0 %d\r\n", o.keys[0].key, len(value))
		return append(append(b, value...), '\r', '\n')
	case o.kind == del:
		return fmt.Appendf(b, "delete %s\r\n", o.keys[0].key)
	case o.kind == count:
		return fmt.Appendf(b, "incr %s 1\r\n", o.keys[0].key)
	}
	b = append(b, "get"...)
	for _, r := range o.keys {
		b = append(append(b, ' '), r.key...)
	}
	return append(b, '\r', '\n')
}

// appendMeta appends one meta command per key, and mn after quiet ones.
func (o *op) appendMeta(b []byte) []byte {
	flags := fmt.Sprintf("O%d k", o.opaque)
	if o.form == quiet {
		flags += " q"
	}
	for _, r := range o.keys {
		switch o.kind {
		case get:
			b = fmt.Appendf(b, "mg %s v f %s\r\n", r.key, flags)
		case set:
			value := appendValue(nil, r.key, o.seq)
			b = fmt.Appendf(b, "ms %s %d T0 F7 %s\r\n", r.key, len(value), flags)
			b = append(append(b, value...), '\r', '\n')
		case del:
			b = fmt.Appendf(b, "md %s %s\r\n", r.key, flags)
		case count:
			b = fmt.Appendf(b, "ma %s N0 J1 v %s\r\n", r.key, flags)
		}
	}
	if o.form == quiet {
		b = append(b, "mn\r\n"...)
	}
	return b
}

// acknowledged notes that o, a write, has succeeded.
func (o *op) acknowledged() { o.keys[0].acknowledge(o.seq, time.Now(), o.addr) }

// counted checks the reply to an increment. Only this client increments the key, and no increment is repeated.
func (o *op) counted(text string) error {
	if n, err := strconv.ParseUint(text, 10, 64); err != nil || n == 0 || n > o.seq {
		return &badReply{fmt.Sprintf("count %q after %d increments", text, o.seq)}
	}
	return nil
}
