package memtier

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/lab/load"
)

func complete(t *testing.T, o load.Options) load.Options {
	t.Helper()
	o.Targets = append(o.Targets, "cache:11211")
	o, err := o.Complete()
	require.NoError(t, err)
	return o
}

func TestALoadIsTranslatedIntoMemtiersFlags(t *testing.T) {
	for _, tt := range []struct {
		name string
		o    load.Options
		want string
	}{
		{
			"defaults",
			load.Options{Duration: 5 * time.Second},
			"--server=cache --port=11211 --protocol=memcache_text --threads=1 --clients=1 --pipeline=1 --ratio=1:9 " +
				"--data-size=32 " +
				"--key-prefix=memtier- --key-minimum=1 --key-maximum=10000 --key-pattern=R:R --test-time=5",
		},
		{
			"multi-gets: memtier's ratio counts keys",
			load.Options{
				Threads: 2, Connections: 8, Pipeline: 4, Sets: 1, Gets: 3, KeysPerGet: 5, Requests: 100,
				Protocol: load.RESP, ExpiryMin: 1, ExpiryMax: 9,
			},
			"--server=cache --port=11211 --protocol=redis --threads=2 --clients=4 --pipeline=4 --ratio=1:15 " +
				"--multi-key-get=5 --data-size=32 " +
				"--expiry-range=1-9 --key-prefix=memtier- --key-minimum=1 --key-maximum=10000 --key-pattern=R:R " +
				"--requests=100",
		},
		{
			"sizes, keys and rate",
			load.Options{
				Connections: 4, Gets: 1, Sizes: load.Sizes{Min: 10, Max: 20, ByKey: true}, SetKeys: load.Sequential,
				GetKeys: load.Zipf, ZipfExponent: 1.5,
				KeyMedian: 5, KeyStdDev: 2, Schedule: load.Constant(400), Duration: time.Second, Pipeline: 1,
			},
			"--server=cache --port=11211 --protocol=memcache_text --threads=1 --clients=4 --pipeline=1 --ratio=0:1 " +
				"--data-size-range=10-20 --data-size-pattern=S " +
				"--key-prefix=memtier- --key-minimum=1 --key-maximum=10000 --key-pattern=S:Z --key-stddev=2 " +
				"--key-median=5 --key-zipf-exp=1.5 --test-time=1 --rate-limiting=100",
		},
	} {
		args, err := Arguments(complete(t, tt.o))
		require.NoError(t, err, tt.name)
		assert.Equal(t, "--hide-histogram --distinct-client-seed "+tt.want, strings.Join(args, " "), tt.name)
	}
	poisson := load.Constant(10)
	poisson.Poisson = true
	for want, o := range map[string]load.Options{
		"several targets":              {Targets: []string{"other:1"}},
		"memcached's meta protocol":    {Protocol: load.Meta},
		"a login here":                 {Password: "x"},
		"a think time":                 {ThinkTime: 1},
		"GETs and multi-GETs together": {Gets: 1, MultiGets: 1},
		"value sizes drawn from a distribution": {Sizes: load.Sizes{
			Min: 1, Max: 9,
			Distribution: load.Distribution{Kind: "exponential", A: 5},
		}},
		"weights of sizes": {Sizes: load.Sizes{List: []load.WeightedSize{{
			Size:   64,
			Weight: 0.9,
		}, {Size: 4096, Weight: 0.1}}}},
		"verifying values during the load":              {Verify: true},
		"a warm-up":                                     {WarmUp: 1},
		"a cool-down":                                   {Duration: 1, CoolDown: 1},
		"a duration that is not a whole":                {Duration: 1500 * time.Millisecond},
		"threads with different numbers of connections": {Threads: 2, Connections: 3},
		"a changing rate":                               {Schedule: poisson},
		"a rate that is not a whole number of requests per second": {Schedule: load.Constant(5), Connections: 2},
	} {
		_, err := Arguments(complete(t, o))
		assert.ErrorContains(t, err, "memtier_benchmark does not support "+want)
	}
}

// fake writes a program that does what script says. In the script $json is the path for the result.
func fake(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "memtier_benchmark")
	text := "#!/bin/sh\nfor argument; do case $argument in --json-out-file=*) json=${argument#*=};; esac; done\n" +
		script + "\n"
	require.NoError(t, os.WriteFile(path, []byte(text), 0o755))
	return path
}

// sampleFile returns the absolute path of an output in testdata.
func sampleFile(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("testdata", name))
	require.NoError(t, err)
	return path
}

func TestMemtiersResultIsConvertedToOneOfPackageLoad(t *testing.T) {
	path := fake(t, "cp "+sampleFile(t, "get.json")+" $json")
	server := mctest.StartMemcached(t)
	r, err := Run(t.Context(), path, load.Options{
		Targets: []string{server.Addr()}, Connections: 4, Gets: 1, ValueSize: 4096, Duration: 5 * time.Second,
		Populate: true, KeyMin: 1, KeyMax: 50,
	})
	require.NoError(t, err)
	assert.EqualValues(t, 50, server.Stat("curr_items"), "it was populated")
	assert.Equal(t, Name, r.Driver)
	assert.Equal(t, 4, r.Connections)
	assert.Equal(t, r.Commands["GET"].Requests, r.Total.Requests)
	assert.Positive(t, r.Total.Requests)
	assert.NotContains(t, r.Commands, "SET")
	assert.InEpsilon(t, float64(r.Total.Requests)/r.Elapsed.Seconds(), r.Total.OpsPerSec, 0.001)
	assert.InEpsilon(t, float64(r.Total.Requests), float64(r.Total.Hits+r.Total.Misses), 0.001)
	require.NotNil(t, r.Commands["GET"].Histogram)
	assert.EqualValues(t, r.Total.Requests, r.Commands["GET"].Histogram.HDR().TotalCount())
	var inWindows uint64
	for i, w := range r.Windows {
		assert.Equal(t, i, w.Index)
		assert.Positive(t, w.Latency.Mean)
		assert.LessOrEqual(t, w.Latency.Min, w.Latency.P50)
		inWindows += w.Commands["GET"].Requests
	}
	assert.Equal(t, r.Total.Requests, inWindows)
	l := r.Total.Latency
	assert.True(t, l.Min <= l.P50 && l.P50 <= l.P90 && l.P90 <= l.P99 && l.P99 <= l.P999 && l.P999 <= l.Max, "%+v", l)
	assert.True(t, l.Min < l.Mean && l.Mean < l.P99, "%+v", l)
	assert.WithinDuration(t, time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC), r.Started, 48*time.Hour)
	assert.Positive(t, r.BytesIn)
	assert.Positive(t, r.Generator.CPU())
}

func TestAFailedMemtierIsAnError(t *testing.T) {
	o := load.Options{Targets: []string{"127.0.0.1:1"}, Requests: 1}
	for want, path := range map[string]string{
		"memtier_benchmark: exec: ": "no-such-program-here",
		`exit status 3: "connection refused"`: fake(t,
			"printf 'connecting\\rconnection refused\\n' >&2; exit 3"),
		"wrote no result: \"nothing to say\"":                 fake(t, "echo nothing to say"),
		"the result of ":                                      fake(t, "echo '{}' > $json"),
		"memtier_benchmark does not support verifying values": "",
	} {
		o.Verify = path == ""
		_, err := Run(t.Context(), path, o)
		assert.ErrorContains(t, err, want)
	}
}

func TestAnInterruptedMemtierReturnsItsResultsSoFar(t *testing.T) {
	started := filepath.Join(t.TempDir(), "started")
	// Only the signal ends the script.
	path := fake(t, "trap 'cp "+sampleFile(t, "set.json")+" $json; exit 1' INT\n: >"+started+
		"; while :; do sleep 0.05; done")
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		for ctx.Err() == nil {
			if _, err := os.Stat(started); err == nil {
				cancel(errors.New("enough"))
			}
		}
	}()
	r, err := Run(ctx, path, load.Options{Targets: []string{"127.0.0.1:1"}, Sets: 1, Duration: time.Hour})
	require.NoError(t, err)
	assert.True(t, r.Interrupted)
	assert.Positive(t, r.Commands["SET"].Requests)
}

func TestMemtierEndsWithItsLabEvenIfThatIsKilled(t *testing.T) {
	const variable = "MEMTIER_OF_A_LAB"
	if path := os.Getenv(variable); path != "" {
		_, _ = Run(t.Context(), path, load.Options{Targets: []string{"127.0.0.1:1"}, Duration: time.Hour})
	}
	file := filepath.Join(t.TempDir(), "pid")
	path := fake(t, "echo $$ >"+file+"; exec sleep 1000")
	lab := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
	lab.Env = append(os.Environ(), variable+"="+path)
	require.NoError(t, lab.Start())
	pid := ""
	require.Eventually(t, func() bool {
		text, err := os.ReadFile(file)
		pid = strings.TrimSpace(string(text))
		return err == nil && pid != ""
	}, mctest.Patience, mctest.Tick)
	require.NoError(t, lab.Process.Kill())
	require.Error(t, lab.Wait())
	require.Eventually(t, func() bool {
		// empty once it has ended, until its parent waits for it
		command, err := os.ReadFile("/proc/" + pid + "/cmdline")
		return err != nil || len(command) == 0
	}, mctest.Patience, mctest.Tick)
}

func TestThroughputIsCountedOverWholeSeconds(t *testing.T) {
	// In the third second memtier is idle; each connection only sends its last request.
	window := func(index int, requests uint64) load.Window {
		return load.Window{
			Index: index, CommandResult: load.CommandResult{Requests: requests},
			Commands: map[string]load.CommandResult{"GET": {Requests: requests}},
		}
	}
	r := &load.Result{
		Elapsed: 3 * time.Second, Windows: []load.Window{window(0, 1000), window(1, 2000), window(2, 10)},
		Total:    load.CommandResult{Requests: 3010, OpsPerSec: 1003},
		Commands: map[string]load.CommandResult{"GET": {OpsPerSec: 1003}},
	}
	trim(r, 2*time.Second)
	assert.InDelta(t, 1500, r.Total.OpsPerSec, 1e-9)
	assert.InDelta(t, 1500, r.Commands["GET"].OpsPerSec, 1e-9)
	assert.Equal(t, 2*time.Second, r.Elapsed)
	bare := &load.Result{Elapsed: 3 * time.Second, Total: load.CommandResult{OpsPerSec: 1003}}
	trim(bare, 2*time.Second)
	assert.InDelta(t, 1003, bare.Total.OpsPerSec, 1e-9, "an output without a time series")
}
