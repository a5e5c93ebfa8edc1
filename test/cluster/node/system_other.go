//go:build !linux

package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"runtime"
)

// ErrRunning is returned by Up for a cluster that already exists.
var ErrRunning = errors.New("the cluster is running")

// possibleSystem returns the reason why a cluster can't run on this operating system.
func possibleSystem() error {
	return fmt.Errorf("a cluster needs Linux, for its containers; this is %s", runtime.GOOS)
}

// Up returns the reason why there can be no cluster.
func (c *Cluster) Up(context.Context, io.Writer) error { return possibleSystem() }

// Down returns the reason why there can be no cluster.
func (c *Cluster) Down(context.Context) error { return possibleSystem() }

// Pid returns 0: there is no cluster.
func (c *Cluster) Pid() int { return 0 }

// Command returns the reason why there can be no cluster.
func (c *Cluster) Command(context.Context, string, ...string) (*exec.Cmd, error) {
	return nil, possibleSystem()
}

// Init returns the reason why there can be no cluster.
func (c *Cluster) Init() error { return possibleSystem() }

// Supervise returns the reason why there can be no cluster.
func (c *Cluster) Supervise(context.Context) error { return possibleSystem() }
