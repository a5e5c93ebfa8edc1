package stats

// Large counts values that are stored in chunks.
type Large struct {
	Stored     uint64 // values whose chunks were sent
	Read       uint64 // values that were put together
	Incomplete uint64 // heads without all of their chunks, which read as misses
}

func (l *Large) plus(o Large) {
	l.Stored += o.Stored
	l.Read += o.Read
	l.Incomplete += o.Incomplete
}

func (l *Large) minus(o Large) {
	l.Stored -= o.Stored
	l.Read -= o.Read
	l.Incomplete -= o.Incomplete
}
