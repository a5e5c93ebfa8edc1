package kernel

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
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
	used, err := UsedBy(os.Getpid())
	require.NoError(t, err)
	after := own()
	assert.GreaterOrEqual(t, used.CPU, before-2*time.Microsecond, "getrusage truncates to microseconds")
	// getrusage scales user and system time to the scheduler's total, a moment earlier.
	assert.LessOrEqual(t, used.CPU, after+10*time.Millisecond)
	assert.Greater(t, used.Memory, int64(1<<20))
	assert.Positive(t, used.Calls)

	_, err = UsedBy(1 << 22)
	assert.ErrorContains(t, err, "CPU time of process 4194304")
	first, err := HostCPU()
	require.NoError(t, err)
	assert.Positive(t, first.User+first.System)
}

func TestTheHostsProcessorTimeIsReadByCategory(t *testing.T) {
	proc := t.TempDir()
	write := func(text string) {
		require.NoError(t, os.WriteFile(filepath.Join(proc, "stat"), []byte(text), 0o644))
	}
	write("cpu  100 20 30 4000 5 6 7 8 9 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n")
	got, err := hostCPU(proc)
	require.NoError(t, err)
	assert.Equal(t, CPU{User: 1.2, System: 0.3, Idle: 40, IOWait: 0.05, IRQ: 0.06, SoftIRQ: 0.07, Steal: 0.08}, got)
	write("cpu a b c d e f g h")
	_, err = hostCPU(proc)
	require.Error(t, err)
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
	read := func() (sum uint64) {
		for _, counter := range []string{"rx_bytes", "tx_bytes"} {
			files, err := filepath.Glob("/sys/class/net/*/statistics/" + counter)
			require.NoError(t, err)
			for _, file := range files {
				text, err := os.ReadFile(file)
				require.NoError(t, err)
				n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
				require.NoError(t, err)
				sum += n
			}
		}
		return sum
	}
	before := read()
	received, sent, err := HostNetwork()
	require.NoError(t, err)
	assert.GreaterOrEqual(t, received+sent, before)
	assert.LessOrEqual(t, received+sent, read())
}
