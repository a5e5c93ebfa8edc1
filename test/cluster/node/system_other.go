//go:build !linux

package node

import (
	"fmt"
	"runtime"
)

// possibleSystem returns why a cluster can't run on this operating system.
func possibleSystem() error {
	return fmt.Errorf("a cluster needs Linux, for its containers; this is %s", runtime.GOOS)
}
