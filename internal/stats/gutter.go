package stats

import (
	"slices"
	"sync/atomic"
)

// Diverted counts requests of a pool that went to its gutter, because all servers of a key were away.
type Diverted struct{ Reads, Writes uint64 }

// Gutter counts the requests that went to a pool's gutter since the start. Safe for concurrent use.
type Gutter struct{ reads, writes atomic.Uint64 }

// Add adds d to g.
func (g *Gutter) Add(d Diverted) {
	g.reads.Add(d.Reads)
	g.writes.Add(d.Writes)
}

// GutterOptions describe a pool that has a gutter.
type GutterOptions struct {
	Pool, Gutter string // names
	Counts       *Gutter
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
		Diverted: Diverted{o.Counts.reads.Load(), o.Counts.writes.Load()},
	}
	s.Away, s.Open = o.Servers()
	return s
}

// guttersSince returns now with the counts since before.
func guttersSince(now, before []GutterSnapshot) []GutterSnapshot {
	since := slices.Clone(now)
	for i := range since {
		for _, b := range before {
			if b.Pool == since[i].Pool {
				since[i].Reads -= b.Reads
				since[i].Writes -= b.Writes
			}
		}
	}
	return since
}
