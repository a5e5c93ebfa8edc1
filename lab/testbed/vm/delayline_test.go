package vm

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestADelayLineLeavesItsThreadAsItWas(t *testing.T) {
	empty, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	require.NoError(t, err)
	defer unix.Close(empty)
	l := &delayLine{tap: empty, wake: empty, done: make(chan struct{})}
	l.ending.Store(true)
	type thread struct{ priority, slack any }
	state := func() thread {
		attr, err := unix.SchedGetAttr(0, 0)
		require.NoError(t, err)
		slack, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
		require.NoError(t, err)
		return thread{*attr, slack}
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := state()
	l.run()
	assert.Equal(t, before, state())
	assert.NoError(t, l.err)
}
