package agent

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"mcmw/internal/mctest"
	"mcmw/lab/kernel"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// processorsOf returns the first processor that a thread may use, and how many it may use.
func processorsOf(t *testing.T, tid int) (first, count int) {
	t.Helper()
	var set unix.CPUSet
	require.NoError(t, unix.SchedGetaffinity(tid, &set))
	for !set.IsSet(first) {
		first++
	}
	return first, set.Count()
}

// server starts a memcached with three threads.
func server(t *testing.T) int {
	t.Helper()
	return mctest.StartMemcached(t, "-t", "3").Pid()
}

func TestThreadsThatServeRequestsAreBoundToProcessorsInTurn(t *testing.T) {
	var own unix.CPUSet
	require.NoError(t, unix.SchedGetaffinity(0, &own))
	pid := server(t)
	_, allowed := processorsOf(t, pid)
	require.NoError(t, (&Pinned{pid, 1, 3}).pin())
	tids, err := serving(pid, 3)
	require.NoError(t, err)
	seen := map[int]int{}
	for _, tid := range tids {
		cpu, count := processorsOf(t, tid)
		assert.Equal(t, 1, count)
		seen[cpu]++
	}
	assert.Len(t, seen, min(3, own.Count()), "no processor has two threads while another has none")
	_, count := processorsOf(t, pid)
	assert.Equal(t, allowed, count, "the main thread serves no requests")

	err = (&Pinned{pid, 0, 4}).pin()
	assert.ErrorContains(t, err,
		fmt.Sprintf("process %d has 3 threads that serve requests, expected 4; its threads are ", pid))
	assert.ErrorContains(t, err, "mc-worker")
}

func TestAllThreadsOfAProcessAreBoundToOneProcessor(t *testing.T) {
	pid := server(t)
	require.NoError(t, (&Pinned{pid, runtime.NumCPU(), 0}).pin(), "numbers beyond the last wrap around")
	threads, err := kernel.Threads(pid)
	require.NoError(t, err)
	assert.Greater(t, len(threads), 3)
	first, _ := processorsOf(t, pid)
	for _, thread := range threads {
		cpu, count := processorsOf(t, thread.ID)
		assert.Equal(t, [2]int{first, 1}, [2]int{cpu, count})
	}
	assert.ErrorContains(t, (&Pinned{1<<22 + 1, 0, 0}).pin(), "looking for the threads of process 4194305: ")
	assert.ErrorContains(t, (&Pinned{1<<22 + 1, 0, 1}).pin(), "looking for the threads of process 4194305: ")
}

func TestAScratchDirectoryIsRemovedByItsOwnerOrByTheNextOne(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	left := filepath.Join(temp, scratchPrefix+strconv.Itoa(1<<22+1))
	require.NoError(t, os.MkdirAll(filepath.Join(left, "appendonlydir"), 0o755))
	foreign := filepath.Join(temp, scratchPrefix+"notes")
	require.NoError(t, os.Mkdir(foreign, 0o755))

	ctx, cancel := context.WithCancel(t.Context())
	out := &stopWriter{left: 1, stop: cancel}
	require.NoError(t, Scratch(ctx, out))
	dir := strings.TrimSpace(out.String())
	assert.Equal(t, temp, filepath.Dir(dir))
	assert.NoDirExists(t, dir, "ctx has ended")
	assert.NoDirExists(t, left)
	assert.DirExists(t, foreign)

	require.NoError(t, os.Mkdir(dir, 0o755), "its owner, this process, runs")
	require.ErrorIs(t, Scratch(ctx, new(bytes.Buffer)), os.ErrExist)
	assert.DirExists(t, dir)
}
