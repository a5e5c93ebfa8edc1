//go:build !linux || !amd64

package faults

import (
	"errors"
	"os/exec"
	"time"

	"mcmw/internal/lab/process"
)

// wallClock is the wall clock of one process. Here it can't be set.
type wallClock struct{}

func startWithClock(string, string, *exec.Cmd) (*process.Process, *wallClock, error) {
	return nil, nil, errNoClock{errors.New("setting the wall clock of one process is made for Linux on amd64 alone")}
}

func (c *wallClock) set(time.Duration) error { return nil }

func (c *wallClock) close() {}
