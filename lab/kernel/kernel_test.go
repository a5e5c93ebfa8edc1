package kernel

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"mcmw/internal/mctest"
)

func TestTheCPUTimeOfAProcessIsThatOfAllItsThreads(t *testing.T) {
	own := func() time.Duration {
		var r unix.Rusage
		require.NoError(t, unix.Getrusage(unix.RUSAGE_SELF, &r))
		return time.Duration(r.Utime.Nano() + r.Stime.Nano())
	}
	before := own()
	got, err := ProcessCPU(os.Getpid())
	require.NoError(t, err)
	after := own()
	assert.GreaterOrEqual(t, got, before-2*time.Microsecond, "getrusage truncates to microseconds")
	// getrusage scales user and system time to the scheduler's total, a moment earlier.
	assert.LessOrEqual(t, got, after+time.Second/ticksPerSecond)

	_, err = ProcessCPU(1 << 22)
	assert.ErrorContains(t, err, "CPU time of process 4194304")
	first, err := HostCPU()
	require.NoError(t, err)
	assert.Positive(t, first.User+first.System)
	memory, err := PeakMemory(os.Getpid())
	require.NoError(t, err)
	assert.Greater(t, memory, int64(1<<20))
}

func TestTheHostsProcessorTimeIsReadByCategory(t *testing.T) {
	got, err := parseCPU("cpu  100 20 30 4000 5 6 7 8 9 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n")
	require.NoError(t, err)
	assert.Equal(t, CPU{User: 1.2, System: 0.3, Idle: 40, IOWait: 0.05, IRQ: 0.06, SoftIRQ: 0.07, Steal: 0.08}, got)
	for _, broken := range []string{"", "cpu0 1 2 3 4 5 6 7 8", "cpu 1 2 3", "cpu a b c d e f g h"} {
		_, err := parseCPU(broken)
		assert.ErrorContains(t, err, "/proc/stat: ", broken)
	}
}

// A process that has ended does not run, also if its parent has not waited for it yet.
func TestTheStartOfAProcessIsKnownUntilItEnds(t *testing.T) {
	started, err := StartTime(os.Getpid())
	require.NoError(t, err)
	assert.Positive(t, started)
	_, err = StartTime(1 << 22)
	require.ErrorIs(t, err, fs.ErrNotExist)
	zombie := exec.Command("true")
	require.NoError(t, zombie.Start())
	defer func() { _ = zombie.Wait() }()
	require.Eventually(t, func() bool {
		_, err := StartTime(zombie.Process.Pid)
		return errors.Is(err, fs.ErrNotExist)
	}, mctest.Patience, mctest.Tick)
}

func TestTheNetworkCountersAreThoseOfAllInterfaces(t *testing.T) {
	received, sent, err := parseNetwork(`Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo: 1000 1 0 0 0 0 0 0 1000 1 0 0 0 0 0 0
  eth0:2000 1 0 0 0 0 0 0 30 1 0 0 0 0 0 0
`)
	require.NoError(t, err)
	assert.EqualValues(t, 3000, received)
	assert.EqualValues(t, 1030, sent)
	for _, broken := range []string{"lo: 1 2 3", "lo: a 1 0 0 0 0 0 0 1", "lo: 1 1 0 0 0 0 0 0 b"} {
		_, _, err := parseNetwork(broken)
		assert.ErrorContains(t, err, "/proc/net/dev: ", broken)
	}
	_, _, err = HostNetwork()
	require.NoError(t, err)
}
