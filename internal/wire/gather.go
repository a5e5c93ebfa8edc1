// Package wire moves bytes between buffers and stream sockets, with or without TLS, with few copies and without
// allocations of its own.
package wire

// copyBelow is the size in bytes up to which a piece is copied next to the piece before it instead of being referenced:
// an entry of a writev costs about as much as moving this many bytes.
const copyBelow = 256

// Gather collects the pieces of one write in order. Only one goroutine at a time may use it.
type Gather struct {
	// KeepUnits makes NextUnit effective. It is for a peer that depends on how TLS records divide requests; see
	// recordEnd.
	KeepUnits bool

	pieces  [][]byte
	scratch []byte // copied pieces; grows to the largest write
	tail    int    // where the last piece begins in scratch, which it ends, plus 1; 0: it is not in scratch
	size    int
	units   []int // ends of units, where others follow
}

// NextUnit marks the end of a unit, which is a request, after the last piece added.
func (g *Gather) NextUnit() {
	if g.KeepUnits {
		g.units = append(g.units, g.size)
	}
}

// Add appends p. A large piece is referenced and must stay unchanged until Reset; a small one is copied.
func (g *Gather) Add(p []byte) {
	if len(p) == 0 {
		return
	}
	last := len(g.pieces) - 1
	switch {
	case g.tail == 0 && last >= 0 && follows(g.pieces[last], p):
		g.pieces[last] = g.pieces[last][:len(g.pieces[last])+len(p)]
	case len(p) > copyBelow:
		g.pieces, g.tail = append(g.pieces, p), 0
	default:
		g.begin()
		g.scratch = append(g.scratch, p...)
		g.pieces[len(g.pieces)-1] = g.scratch[g.tail-1:]
	}
	g.size += len(p)
}

// AddString appends a copy of s.
func (g *Gather) AddString(s string) {
	if s == "" {
		return
	}
	g.begin()
	g.scratch = append(g.scratch, s...)
	g.pieces[len(g.pieces)-1] = g.scratch[g.tail-1:]
	g.size += len(s)
}

// begin makes the last piece one that ends scratch.
func (g *Gather) begin() {
	if g.tail == 0 {
		g.pieces, g.tail = append(g.pieces, nil), len(g.scratch)+1
	}
}

// follows reports whether p comes directly after last in the same array.
func follows(last, p []byte) bool {
	return cap(last)-len(last) >= len(p) && &last[:len(last)+1][len(last)] == &p[0]
}

// Len returns the number of bytes collected.
func (g *Gather) Len() int { return g.size }

// Pieces returns the pieces in order; they belong to g until Reset.
func (g *Gather) Pieces() [][]byte { return g.pieces }

// AppendFrom appends to dst a copy of everything after the first skip bytes.
func (g *Gather) AppendFrom(dst []byte, skip int) []byte {
	for _, p := range g.pieces {
		if skip >= len(p) {
			skip -= len(p)
			continue
		}
		dst = append(dst, p[skip:]...)
		skip = 0
	}
	return dst
}

// keepScratch is the capacity in bytes up to which scratch is kept after a Reset. Memory that a rare huge request
// needed is freed.
const keepScratch = 256 << 10

// Reset empties g and drops its references to the pieces.
func (g *Gather) Reset() {
	clear(g.pieces)
	g.pieces = g.pieces[:0]
	g.units = g.units[:0]
	g.size, g.tail = 0, 0
	if cap(g.scratch) > keepScratch {
		g.scratch = nil
	}
	g.scratch = g.scratch[:0]
}
