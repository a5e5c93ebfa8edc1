package load

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// minus returns the times since earlier.
func (u Usage) minus(earlier Usage) Usage {
	return Usage{User: u.User - earlier.User, System: u.System - earlier.System, Waited: u.Waited - earlier.Waited}
}

// processUsage returns the times of this process since its start.
func processUsage() Usage {
	var r unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &r) // it can't fail for this process
	u := Usage{User: time.Duration(r.Utime.Nano()), System: time.Duration(r.Stime.Nano())}
	// One file per thread: time on a core and time waiting for one, ns, and the number of slices. Without scheduler
	// statistics the kernel has no such files, and the waiting time stays 0. Threads that have ended are missing, but
	// Go's threads don't end.
	files, _ := filepath.Glob("/proc/self/task/*/schedstat") // it fails only for a malformed pattern
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		if fields := bytes.Fields(text); len(fields) == 3 {
			if ns, err := strconv.ParseInt(string(fields[1]), 10, 64); err == nil {
				u.Waited += time.Duration(ns)
			}
		}
	}
	return u
}
