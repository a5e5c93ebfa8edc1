package stats

import (
	"slices"
	"sync/atomic"
)

// Diverted counts requests of a pool that went to its gutter, because all servers of a key were away.
type Diverted struct{ Reads, Writes uint64 }

// Gutter counts what went to a pool's gutter since the start. Safe for concurrent use.
type Gutter struct{ reads, writes atomic.Uint64 }

// Add adds to g what was diverted.
func (g *Gutter) Add(d Diverted) {
	g.reads.Add(d.Reads)
	g.writes.Add(d.Writes)
}

// GutterOptions describe a pool that has a gutter.
type GutterOptions struct {
	Pool, Gutter string // names
	Counts       *Gutter
	// Servers returns of how many of the pool's servers keys are in the gutter now, and of how many there may be some: so each write of those is told
	// the gutter. It is called from any goroutine.
	Servers func() (away, open int)
}

// GutterSnapshot is the state of a pool's gutter at the moment of a Snapshot.
type GutterSnapshot struct {
	Pool, Gutter string
	Diverted
	Away, Open int
}

// snapshot returns what o describes as of now.
func (o *GutterOptions) snapshot() GutterSnapshot {
	s := GutterSnapshot{Pool: o.Pool, Gutter: o.Gutter, Diverted: Diverted{o.Counts.reads.Load(), o.Counts.writes.Load()}}
	s.Away, s.Open = o.Servers()
	return s
}

// guttersSince returns now with what was diverted since before.
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
