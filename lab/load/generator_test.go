package load_test

import (
	"context"
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/lab/load"
)

// run runs the load and fails the test if that fails.
func run(t *testing.T, o load.Options) *load.Result {
	t.Helper()
	result, err := tryRun(t, o)
	require.NoError(t, err)
	return result
}

func tryRun(t *testing.T, o load.Options) (*load.Result, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	g, err := load.New(o)
	require.NoError(t, err)
	result, err := g.Run(ctx)
	require.NoError(t, ctx.Err(), "the run did not end on its own")
	return result, err
}

func TestEveryRequestOfEveryKindIsAnsweredAndCounted(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "memcached.sock")
	server, unixServer := mctest.StartMemcached(t), mctest.StartMemcached(t, "-s", socket)
	for _, tt := range []struct {
		name string
		o    load.Options
		sets uint64 // of the requests of all connections
	}{
		{"one connection", load.Options{Requests: 1000}, 100},
		{"only sets", load.Options{Sets: 1, Connections: 3, Requests: 100}, 300},
		{"only gets", load.Options{Gets: 1, Connections: 3, Requests: 100}, 0},
		{"several threads, pipelined", load.Options{Threads: 3, Connections: 10, Pipeline: 16, Requests: 1000}, 1000},
		{"a pipeline longer than the run", load.Options{Pipeline: 64, Requests: 10}, 1},
		{"multi-gets", load.Options{Connections: 4, KeysPerGet: 10, Pipeline: 4, Requests: 500}, 200},
		{
			"values greater than a socket buffer",
			load.Options{
				Connections: 4, Pipeline: 8, Sets: 1, Gets: 1, ValueSize: 900_000, KeyMin: 1, KeyMax: 20,
				Requests: 40,
			},
			80,
		},
		{"values shorter than a key", load.Options{ValueSize: 3, Requests: 100}, 10},
		{"a unix socket", load.Options{
			Targets: []string{unixServer.Addr()}, Connections: 4, Pipeline: 2,
			Requests: 100,
		}, 40},
		{"several targets", load.Options{
			Targets: []string{server.Addr(), unixServer.Addr()}, Connections: 5,
			Requests: 100,
		}, 50},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := tt.o
			if o.Targets == nil {
				o.Targets = []string{server.Addr()}
			}
			if o.KeyMax == 0 {
				o.KeyMin, o.KeyMax = 1, 200
			}
			o.Populate, o.Verify = true, true
			r := run(t, o)
			requests := uint64(max(o.Connections, 1) * o.Requests)
			gets := requests - tt.sets
			assert.Equal(t, requests, r.Total.Requests)
			assert.Equal(t, tt.sets, r.Commands["SET"].Requests)
			assert.Equal(t, gets, r.Commands["GET"].Requests)
			assert.Equal(t, gets*uint64(max(o.KeysPerGet, 1)), r.Total.Hits)
			assert.Zero(t, r.Total.Misses)
			assert.Zero(t, r.Total.Failures)
			assert.False(t, r.Interrupted)
			var inWindows uint64
			for _, w := range r.Windows {
				inWindows += w.Requests
			}
			assert.Equal(t, requests, inWindows)
			assert.Greater(t, r.BytesOut, requests)
			assert.Greater(t, r.BytesIn, requests)
			assert.Positive(t, r.Elapsed)
			assert.Positive(t, r.Generator.CPU())
			l := r.Total.Latency
			assert.Positive(t, l.Min)
			for _, ascending := range [][2]time.Duration{
				{l.Min, l.P50},
				{l.P50, l.P90},
				{l.P90, l.P99},
				{l.P99, l.P999},
				{l.P999, l.Max},
				{l.Min, l.Mean},
				{l.Mean, l.Max},
			} {
				assert.LessOrEqual(t, ascending[0], ascending[1], "%+v", l)
			}
			assert.LessOrEqual(t, l.Max, r.Elapsed+r.Elapsed/100)
		})
	}
}

// redis starts a server that keeps values in memory and has the few commands of Redis that a load uses.
func redis(t *testing.T, password string) string {
	var mu sync.Mutex
	values := make(map[string]string) // guarded by mu
	return mctest.StartScript(t, func(p *mctest.Peer) {
		// read returns the arguments of the next command.
		read := func() (arguments []string, ok bool) {
			line, ok := p.Line()
			if !ok {
				return nil, false
			}
			n, err := strconv.Atoi(strings.TrimPrefix(line, "*"))
			if !assert.NoError(t, err, line) {
				return nil, false
			}
			for range n {
				length, _ := p.Line()
				argument, ok := p.Line()
				if !ok || !assert.Equal(t, length, "$"+strconv.Itoa(len(argument))) {
					return nil, false
				}
				arguments = append(arguments, argument)
			}
			return arguments, true
		}
		bulk := func(key string) string {
			mu.Lock()
			defer mu.Unlock()
			value, ok := values[key]
			if !ok {
				return "$-1\r\n"
			}
			return fmt.Sprintf("$%d\r\n%s\r\n", len(value), value)
		}
		known := password == ""
		for {
			arguments, ok := read()
			if !ok {
				return
			}
			switch {
			case arguments[0] == "AUTH" && arguments[len(arguments)-1] == password:
				known = true
				p.Send("+OK\r\n")
			case !known:
				p.Send("-NOAUTH Authentication required.\r\n")
			case arguments[0] == "SET":
				mu.Lock()
				values[arguments[1]] = arguments[2]
				mu.Unlock()
				p.Send("+OK\r\n")
			case arguments[0] == "GET":
				p.Send(bulk(arguments[1]))
			case arguments[0] == "MGET":
				reply := fmt.Sprintf("*%d\r\n", len(arguments)-1)
				for _, key := range arguments[1:] {
					reply += bulk(key)
				}
				p.Send(reply)
			default:
				p.Send("-ERR unknown command\r\n")
			}
		}
	}).Addr()
}

func TestEveryProtocolGetsAndSetsVerifiedValues(t *testing.T) {
	memcached := mctest.StartMemcached(t).Addr()
	for protocol, target := range map[load.Protocol]string{
		load.Classic: memcached, load.Meta: memcached,
		load.RESP: redis(t, ""),
	} {
		t.Run(protocol.String(), func(t *testing.T) {
			o := load.Options{
				Protocol: protocol, Targets: []string{target}, Threads: 2, Connections: 4, Pipeline: 5, Requests: 300,
				KeyMin: 1, KeyMax: 200,
				KeyPrefix: protocol.String() + "-", Sets: 1, Gets: 3, MultiGets: 2, Verify: true, ExpiryMin: 100,
				ExpiryMax: 200,
				Sizes:     load.Sizes{Min: 1, Max: 3000}, SetKeys: load.Zipf, GetKeys: load.Gaussian,
			}
			empty := run(t, o)
			assert.Positive(t, empty.Total.Misses, "nothing was populated")
			o.Populate, o.SetKeys = true, load.Sequential
			r := run(t, o)
			assert.EqualValues(t, 1200, r.Total.Requests)
			assert.Zero(t, r.Total.Failures)
			assert.Zero(t, r.Total.Misses)
			assert.EqualValues(t, 200, r.Commands["SET"].Requests)
			assert.EqualValues(t, 600, r.Commands["GET"].Hits)
			assert.EqualValues(t, 400, r.Commands["MULTIGET"].Requests)
			assert.EqualValues(t, 4000, r.Commands["MULTIGET"].Hits)
			assert.EqualValues(t, 400, r.Commands["MULTIGET"].Histogram.HDR().TotalCount())
			assert.EqualValues(t, 1200, r.Total.Histogram.HDR().TotalCount())
			assert.Equal(t, protocol.String(), r.Protocol)
		})
	}
}

func TestValuesHaveTheExpiryThatWasSet(t *testing.T) {
	server := mctest.StartMemcached(t)
	for _, protocol := range []load.Protocol{load.Classic, load.Meta} {
		o := load.Options{
			Protocol: protocol, Targets: []string{server.Addr()}, Sets: 1, Requests: 1, ExpiryMin: 500,
			ExpiryMax: 500, KeyMin: 7, KeyMax: 7,
		}
		run(t, o)
		reply := mctest.MustDial(t, server.Addr()).MustDo(t, "mg memtier-7 t\r\n")
		assert.Regexp(t, `^HD t(500|499|49\d)\r\n$`, reply)
	}
}

func TestALoadLogsIn(t *testing.T) {
	passwords := filepath.Join(t.TempDir(), "passwords")
	require.NoError(t, os.WriteFile(passwords, []byte("user:secret\n"), 0o600))
	memcached := mctest.StartMemcached(t, "-Y", passwords).Addr()
	for protocol, target := range map[load.Protocol]string{load.Classic: memcached, load.RESP: redis(t, "secret")} {
		o := load.Options{
			Protocol: protocol, Targets: []string{target}, Connections: 3, Requests: 20, User: "user",
			Password: "secret", Populate: true, KeyMin: 1, KeyMax: 10,
		}
		r := run(t, o)
		assert.Zero(t, r.Total.Failures)
		assert.Zero(t, r.Total.Misses)
		o.Password = "wrong"
		_, err := tryRun(t, o)
		assert.ErrorContains(t, err, "populating: target "+target+": logging in: the target answered ")
		o.Populate = false
		_, err = tryRun(t, o)
		assert.ErrorContains(t, err, "connection 1 of 3: target "+target+": logging in: the target answered ")
	}
}

func TestAnOpenLoopInRealTimeSendsTheRequestsThatAreDue(t *testing.T) {
	server := mctest.StartMemcached(t)
	s := load.Constant(2000)
	r := run(t, load.Options{
		Targets: []string{server.Addr()}, Threads: 2, Connections: 6, Schedule: s, WarmUp: 50 * time.Millisecond,
		Duration: 500 * time.Millisecond,
	})
	require.NotNil(t, r.Pace)
	assert.InDelta(t, 1000, r.Pace.Scheduled, 1e-6)
	// However busy the machine is, only due requests are sent, and requests that are due but not sent are counted.
	// Replies to requests of the warm-up can be recorded.
	assert.InDelta(t, 1000, float64(r.Total.Requests+r.Pace.Unsent), 100)
	assert.GreaterOrEqual(t, r.Total.Latency.Mean, r.Total.Service.Mean)
	assert.GreaterOrEqual(t, r.Elapsed, 500*time.Millisecond)
	assert.Equal(t, "2000", r.Rate)
	assert.Equal(t, "even", r.Arrivals)
	var text, table strings.Builder
	require.NoError(t, r.WriteText(&text))
	assert.Contains(t, text.String(), "open loop, 2000 requests/s, even arrivals, SET:GET 1:9")
	assert.Contains(t, text.String(), "service time")
	assert.Contains(t, text.String(), "requests were sent ")
	require.NoError(t, r.WriteCSV(&table))
	rows, err := csv.NewReader(strings.NewReader(table.String())).ReadAll()
	require.NoError(t, err)
	last := rows[len(rows)-3:] // of the last second; on a busy machine there can be more than one
	assert.Equal(t, []string{"SET", "GET", "total"}, []string{last[0][2], last[1][2], last[2][2]})
	assert.Equal(t, []string{"", "", ""}, last[1][17:], "single commands have no slip and no schedule")
	assert.NotContains(t, last[2], "")
}

func TestARunRestoresGOMAXPROCS(t *testing.T) {
	server := mctest.StartMemcached(t)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	g, err := load.New(load.Options{Targets: []string{server.Addr()}, Threads: 4})
	require.NoError(t, err)
	raised := make(chan struct{}) // closed when the run has raised it
	go func() {
		defer close(raised)
		for g.Live().State != load.Recording {
			time.Sleep(mctest.Tick)
		}
		assert.Equal(t, 6, runtime.GOMAXPROCS(0))
	}()
	_, err = runUntil(t, g, raised)
	require.NoError(t, err)
	assert.Equal(t, 2, runtime.GOMAXPROCS(0))
}

func TestTheResultAgreesWithTheServersCounters(t *testing.T) {
	server := mctest.StartMemcached(t)
	r := run(t, load.Options{
		Targets: []string{server.Addr()}, Threads: 2, Connections: 8, Pipeline: 4, KeysPerGet: 3, Requests: 1000,
		KeyMin: 1, KeyMax: 5000,
	})
	assert.EqualValues(t, server.Stat("cmd_set"), r.Commands["SET"].Requests)
	assert.EqualValues(t, server.Stat("get_hits"), r.Total.Hits)
	assert.EqualValues(t, server.Stat("get_misses"), r.Total.Misses)
	assert.Positive(t, r.Total.Misses, "nothing was populated")
	assert.EqualValues(t, r.Commands["GET"].Requests*3, r.Total.Hits+r.Total.Misses)
}

func TestTheSameSeedMakesTheSameRequests(t *testing.T) {
	server := mctest.StartMemcached(t)
	o := load.Options{Targets: []string{server.Addr()}, Connections: 1, Requests: 2000, KeyMin: 1, KeyMax: 1000}
	hits := func(seed uint64) uint64 {
		mctest.MustDial(t, server.Addr()).MustDo(t, "flush_all\r\n")
		o.Seed = seed
		return run(t, o).Total.Hits
	}
	first := hits(1)
	assert.Positive(t, first)
	assert.Equal(t, first, hits(1))
	assert.NotEqual(t, first, hits(2))
}

func TestConnectionsDrawDifferentKeys(t *testing.T) {
	server := mctest.StartMemcached(t)
	o := load.Options{
		Targets: []string{server.Addr()}, Connections: 50, Sets: 1, Requests: 1, KeyMin: 1,
		KeyMax: 1 << 40,
	}
	run(t, o)
	assert.EqualValues(t, 50, server.Stat("curr_items"))
}

func TestARunEndsAfterItsDurationAndLeavesOutTheWarmUp(t *testing.T) {
	server := mctest.StartMemcached(t)
	// How much load there is in a warm-up, and how long the last replies take, depends on how busy the machine is.
	for warmUp := 300 * time.Millisecond; ; warmUp *= 4 {
		require.Less(t, warmUp, mctest.Patience,
			"the result includes the warm-up, or the run takes longer than its duration")
		before := server.Stat("get_hits")
		r := run(t, load.Options{
			Targets: []string{server.Addr()}, Threads: 2, Connections: 4, WarmUp: warmUp,
			Duration: 1200 * time.Millisecond, Populate: true,
		})
		require.Positive(t, r.Total.Hits)
		if len(r.Windows) > 2 {
			continue
		}
		require.Len(t, r.Windows, 2)
		require.Equal(t, time.Second, r.Windows[0].Length)
		require.Equal(t, r.Elapsed-time.Second, r.Windows[1].Length)
		if int64(r.Total.Hits)+4 < server.Stat("get_hits")-before {
			return
		}
	}
}

func TestTheLoadOfACoolDownIsNotRecorded(t *testing.T) {
	server := mctest.StartMemcached(t)
	// How much load there is in a cool-down depends on how busy the machine is.
	for coolDown := 300 * time.Millisecond; ; coolDown *= 4 {
		require.Less(t, coolDown, mctest.Patience, "the load ended with the recording")
		before := server.Stat("get_hits")
		r := run(t, load.Options{
			Targets: []string{server.Addr()}, Threads: 2, Connections: 4, Duration: time.Second, CoolDown: coolDown,
			Populate: true,
		})
		require.Equal(t, time.Second, r.Elapsed)
		require.Len(t, r.Windows, 1)
		require.Equal(t, time.Second, r.Windows[0].Length)
		require.Equal(t, r.Total.Requests, r.Windows[0].Requests)
		require.Positive(t, r.Total.Hits)
		if int64(r.Total.Hits)+4 < server.Stat("get_hits")-before {
			return // it continued unrecorded, with more than what was outstanding
		}
	}
}

func TestARunWithoutLimitContinuesUntilItsContextEnds(t *testing.T) {
	server := mctest.StartMemcached(t)
	g, err := load.New(load.Options{Targets: []string{server.Addr()}, Connections: 4, Pipeline: 8})
	require.NoError(t, err)
	assert.Equal(t, load.Idle, g.Live().State)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	var r *load.Result
	go func() {
		defer close(done)
		r, err = g.Run(ctx)
	}()
	require.Eventually(t, func() bool { return g.Live().Latest != nil }, mctest.Patience, 10*time.Millisecond)
	live := g.Live()
	assert.Equal(t, load.Recording, live.State)
	assert.Positive(t, live.Requests)
	assert.Equal(t, time.Second, live.Latest.Length)
	cancel()
	select {
	case <-done:
	case <-time.After(mctest.Patience):
		t.Fatal("the run did not end with its context")
	}
	require.NoError(t, err)
	assert.True(t, r.Interrupted)
	assert.GreaterOrEqual(t, r.Total.Requests, live.Requests)
	assert.Equal(t, load.Ended, g.Live().State)
	_, err = g.Run(context.Background())
	assert.ErrorContains(t, err, "runs only once")
}
