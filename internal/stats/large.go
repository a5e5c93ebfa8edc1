package stats

// Large counts values that are stored in chunks.
type Large struct {
	Stored     uint64 // values whose chunks were sent
	Read       uint64 // values that were assembled from their chunks
	Incomplete uint64 // values of which a chunk was missing, which read as misses
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
