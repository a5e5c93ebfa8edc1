package middleware

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// giveBackEvery is the time between two looks at the process's memory, giveBackAfter in how many of them nothing was collected
	// when a load counts as over.
	giveBackEvery = time.Second
	giveBackAfter = 3
	// giveBackFrom is by how much the memory must have grown since the last time, bytes: a collection costs more than less is worth.
	giveBackFrom = 8 << 20
)

// GiveBackMemory returns to the system what a load took and does not use any more, when it is over, until ctx ends. By itself the
// runtime keeps the memory of its last collection, which without a load is followed by the next in two minutes; large buffers stay in
// their pools for two of them. It is for the process that a Middleware has to itself.
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
		runtime.GC() // the first of the two that empty the pools
		debug.FreeOSMemory()
		last, kept = read()
	}
}
