package load

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// usage is the resource usage of this process since its start.
type usage struct {
	user, system time.Duration
	// waited is the time in which its threads could run but had no core.
	waited time.Duration
}

// minus returns u less what it was at an earlier time.
func (u usage) minus(earlier usage) usage {
	return usage{user: u.user - earlier.user, system: u.system - earlier.system, waited: u.waited - earlier.waited}
}

func (u usage) cpu() time.Duration { return u.user + u.system }

func processUsage() (usage, error) {
	var r unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &r); err != nil {
		return usage{}, fmt.Errorf("reading the generator's CPU time: %w", err)
	}
	u := usage{user: time.Duration(r.Utime.Nano()), system: time.Duration(r.Stime.Nano())}
	// One file for every thread: "time on the CPU, time waiting for it, slices", the times in ns. A kernel without scheduler
	// statistics has none: the waiting time is then not known and stays 0. A thread that ends is lost; Go's don't.
	files, err := filepath.Glob("/proc/self/task/*/schedstat")
	if err != nil {
		return usage{}, err
	}
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
	return u, nil
}
