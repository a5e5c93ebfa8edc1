package middleware

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// giveBackEvery is the time between two checks of the process's memory; giveBackAfter is the number of checks without a
	// garbage collection after which a load counts as over.
	giveBackEvery = time.Second
	giveBackAfter = 3
	// giveBackFrom is the growth of memory since the last time, bytes, from which a collection is worth its cost.
	giveBackFrom = 8 << 20
)

// GiveBackMemory returns memory that a load needed to the system when the load is over, until ctx ends. Otherwise the
// runtime keeps the memory of its last collection, and without a load the next one comes after two minutes; large buffers
// stay in their pools for two collections. It is meant for a process with a single Middleware.
func GiveBackMemory(ctx context.Context) {
	tick := time.NewTicker(giveBackEvery)
	defer tick.Stop()
	samples := []metrics.Sample{
		{Name: "/gc/cycles/total:gc-cycles"}, {Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"},
	}
	read := func() (collections, memory uint64) {
		metrics.Read(samples)
		return samples[0].Value.Uint64(), samples[1].Value.Uint64() - samples[2].Value.Uint64()
	}
	last, kept := read()
	quiet := 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		collections, memory := read()
		quiet++
		if collections != last {
			last, quiet = collections, 0
		}
		kept = min(kept, memory)
		if quiet < giveBackAfter || memory < kept+giveBackFrom {
			continue
		}
		runtime.GC() // buffers leave their pools after two collections; this is the first
		debug.FreeOSMemory()
		last, kept = read()
	}
}
