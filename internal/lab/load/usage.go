package load

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// usage is the resource usage of this process since its start.
type usage struct {
	user, system time.Duration
	// waited is how long its threads were ready to run but had no core.
	waited time.Duration
}

// minus returns the usage since earlier.
func (u usage) minus(earlier usage) usage {
	return usage{user: u.user - earlier.user, system: u.system - earlier.system, waited: u.waited - earlier.waited}
}

func (u usage) cpu() time.Duration { return u.user + u.system }

func processUsage() usage {
	var r unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &r) // it can't fail for this process
	u := usage{user: time.Duration(r.Utime.Nano()), system: time.Duration(r.Stime.Nano())}
	// One file per thread: time on a core and time waiting for one, ns, and the number of slices. Without scheduler statistics the kernel has no such
	// files, and the waiting time stays 0. Threads that have ended are missing, but Go's threads don't end.
	files, _ := filepath.Glob("/proc/self/task/*/schedstat") // it fails only for a malformed pattern
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		if fields := bytes.Fields(text); len(fields) == 3 {
			if ns, err := strconv.ParseInt(string(fields[1]), 10, 64); err == nil {
				u.waited += time.Duration(ns)
			}
		}
	}
	return u
}
