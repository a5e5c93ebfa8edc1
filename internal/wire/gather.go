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
	tail    int    // where the last piece begins in scratch, which it ends; it is not in pieces yet
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
	switch last := len(g.pieces) - 1; {
	case len(g.scratch) == g.tail && last >= 0 && follows(g.pieces[last], p):
		g.pieces[last] = g.pieces[last][:len(g.pieces[last])+len(p)]
	case len(p) > copyBelow:
		g.pieces = append(g.Pieces(), p)
	default:
		g.scratch = append(g.scratch, p...)
	}
	g.size += len(p)
}

// AddString appends a copy of s.
func (g *Gather) AddString(s string) {
	g.scratch = append(g.scratch, s...)
	g.size += len(s)
}

// follows reports whether p comes directly after last in the same array.
func follows(last, p []byte) bool {
	return cap(last)-len(last) >= len(p) && &last[:len(last)+1][len(last)] == &p[0]
}

// Len returns the number of bytes collected.
func (g *Gather) Len() int { return g.size }

// Pieces returns the pieces in order; they belong to g until Reset.
func (g *Gather) Pieces() [][]byte {
	if g.tail < len(g.scratch) {
		g.pieces, g.tail = append(g.pieces, g.scratch[g.tail:]), len(g.scratch)
	}
	return g.pieces
}

// AppendFrom appends to dst a copy of everything after the first skip bytes.
func (g *Gather) AppendFrom(dst []byte, skip int) []byte {
	for _, p := range g.Pieces() {
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
