package experiment

import (
	"strconv"
	"strings"
)

// The kinds of servers.
const (
	Memcached = "memcached"
	Redis     = "redis"
)

// Levels of ServerPinning.
const (
	NotPinned     = "none"
	PinnedProcess = "process"
	PinnedThread  = "thread"
)

const (
	// maxRedisThreads is the most io-threads that Redis 7 accepts.
	maxRedisThreads = 128
	// allProcessors stands for all processors that the testbed allows a role.
	allProcessors = "all"
	// maxProcessor is the largest processor number in a default CPU set of Linux.
	maxProcessor = 1023
)

// processors returns a setting for the processors that the programs of a role can use.
func processors(name, programs string) Setting {
	return Setting{
		Name: name, Default: allProcessors,
		Help:    "processors that the " + programs + " can use; all: those that the testbed's `cpus` allow",
		Accepts: "all, or numbers and ranges such as 0,2-3",
		check: func(text string) bool {
			_, ok := parseProcessors(text)
			return ok
		},
	}
}

// Processors returns the value of a setting for processors, which has been checked; nil for all.
func (v Values) Processors(name string) []int {
	cpus, _ := parseProcessors(v[name])
	return cpus
}

// parseProcessors reads "all" as nil, and "0,2-3" as 0, 2, 3.
func parseProcessors(text string) (cpus []int, ok bool) {
	if text == allProcessors {
		return nil, true
	}
	for part := range strings.SplitSeq(text, ",") {
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		low, errLow := strconv.Atoi(from)
		high, errHigh := strconv.Atoi(to)
		if errLow != nil || errHigh != nil || low < 0 || high < low || high > maxProcessor {
			return nil, false
		}
		for cpu := low; cpu <= high; cpu++ {
			cpus = append(cpus, cpu)
		}
	}
	return cpus, true
}
