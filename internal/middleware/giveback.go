package middleware

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// giveBackEvery is the time between two checks of the process's memory. After giveBackAfter checks without a
	// garbage collection the load counts as ended.
	giveBackEvery = time.Second
	giveBackAfter = 3
	// giveBackFrom is the growth of memory since the last collection here that makes another one worth its cost, bytes.
	giveBackFrom = 8 << 20
)

// GiveBackMemory returns the memory that a load needed to the operating system when the load has ended, until ctx ends.
// Without it the runtime would keep the memory of its last collection. Without a load the next collection comes only
// after two minutes, and large buffers stay in their pools for two collections. It is meant for a process with a single
// Middleware.
func GiveBackMemory(ctx context.Context) {
	tick := time.NewTicker(giveBackEvery)
	defer tick.Stop()
	samples := []metrics.Sample{
		{Name: "/gc/cycles/total:gc-cycles"},
		{Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/released:bytes"},
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
