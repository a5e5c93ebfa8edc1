package stats

// Diverted counts requests of a pool that went to its gutter, because all servers of a key were away.
type Diverted struct{ Reads, Writes uint64 }

// GutterSnapshot is the state of a pool's gutter at the moment of a Snapshot.
type GutterSnapshot struct {
	Pool, Gutter string
	Diverted
	// Away is the number of the pool's servers whose keys are read and written in the gutter now, and Open the number
	// of those of which the gutter may still hold keys, so that each write of such a key deletes it there.
	Away, Open int
}
