package stats

// Diverted counts requests of a pool that went to its gutter, because all servers of a key were away.
type Diverted struct{ Reads, Writes uint64 }

// GutterOptions describe a pool that has a gutter.
type GutterOptions struct {
	Pool, Gutter string // names
	Counts       *Sum[Diverted]
	// Servers returns the number of the pool's servers whose keys are read and written in the gutter now (away), and
	// the number of those of which the gutter may still hold keys, so that each write of such a key deletes it there
	// (open). It is called from any goroutine.
	Servers func() (away, open int)
}

// GutterSnapshot is the state of a pool's gutter at the moment of a Snapshot.
type GutterSnapshot struct {
	Pool, Gutter string
	Diverted
	Away, Open int
}

// snapshot returns the current state.
func (o *GutterOptions) snapshot() GutterSnapshot {
	s := GutterSnapshot{
		Pool: o.Pool, Gutter: o.Gutter,
		Diverted: o.Counts.Load(),
	}
	s.Away, s.Open = o.Servers()
	return s
}
