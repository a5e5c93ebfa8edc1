package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/lab/record"
)

func TestRedisAndMemcachedAreMeasuredAlikeAndPinned(t *testing.T) {
	if testing.Short() {
		t.Skip("two seconds for each of four runs")
	}
	path := filepath.Join(t.TempDir(), "servers.yaml")
	require.NoError(t, os.WriteFile(path, []byte(`name: servers
points:
  - {server: memcached, server_threads: 2, server_pinning: thread, group_size: 40, load_cpus: "0"}
  - {server: redis, servers: 2, server_pinning: process, server_cpus: "0"}
  - {server: redis, keys_per_get: 3, value_size: 2000}
  - {server: redis, server_persistence: append, ratio: 1:1}
constants: {middlewares: 0, clients: 4, keys: 50, think_time: 5ms}
order: listed
repetitions: 1
run: {warm_up: 0s, duration: 2s}
`), 0o644))
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	var dir string
	var runs []record.Run
	// On a busy machine nothing may be answered in the two seconds of a run. Then the experiment is repeated.
	idle := func(run record.Run) bool {
		x, ok := run.Value("client", "throughput")
		return ok && x == 0
	}
	for attempts := 0; attempts == 0 || slices.ContainsFunc(runs, idle); attempts++ {
		require.Less(t, attempts, 5, "runs without a reply")
		dir = filepath.Join(t.TempDir(), "record")
		_, stderr, err := lab(context.Background(), "run", path, "--out", dir, "--program", "mcmw=true")
		require.NoError(t, err, stderr)
		runs = recorded(t, dir)
	}
	require.Len(t, runs, 4)
	// processor time of the first server in all runs; in a single run on a busy machine it can be too short to be
	// counted
	var used float64
	for i, run := range runs {
		require.Equal(t, record.Complete, run.State, run.Error)
		for _, metric := range []string{"misses", "errors"} {
			v, ok := run.Value("client", metric)
			assert.True(t, ok, metric)
			assert.Zero(t, v, "%s of run %d: the keys were stored on every server", metric, i+1)
		}
		_, ok := run.Value("client", "throughput")
		assert.True(t, ok)
		seconds, ok := run.Value("server:s1", "seconds_cpu")
		assert.True(t, ok)
		used += seconds
	}
	assert.Positive(t, used)
	_, ok := runs[1].Value("server:s2", "seconds_cpu")
	assert.True(t, ok)
	r, err := record.Open(dir)
	require.NoError(t, err)
	defer r.Close()
	assert.Contains(t, r.Manifest().Versions["redis"], "Redis server v=")
	left, err := filepath.Glob(filepath.Join(temp, "mcmwlab-scratch*"))
	require.NoError(t, err)
	assert.Empty(t, left, "the files of Redis are removed")
}

func TestAMissingServerIsReportedWithItsPackage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "redis.yaml")
	require.NoError(t, os.WriteFile(path, []byte("name: redis\nconstants: {server: redis, middlewares: 0}\n"), 0o644))
	_, _, err := lab(context.Background(), "run", path, "--out", filepath.Join(t.TempDir(), "r"), "--program",
		"redis=no-redis",
		"--program", "memcached=no-memcached")
	require.ErrorContains(t, err, "install it, on Debian: apt-get install redis-server")
}
