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
		{"keeping processors", load.Options{
			Threads: 3, Connections: 7, Pipeline: 3, HoldProcessors: true,
			Requests: 500,
		}, 350},
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
			assert.EqualValues(t, 400, r.Commands["MULTIGET"].Histogram.Count())
			assert.EqualValues(t, 1200, r.Total.Histogram.Count())
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
		Duration: 500 * time.Millisecond, HoldProcessors: true,
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
	g, err := load.New(load.Options{Targets: []string{server.Addr()}, Threads: 4, HoldProcessors: true})
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

// silentAfter starts a server that answers the first n gets of every connection and no more. silent is closed when it
// has left one unanswered.
func silentAfter(t *testing.T, n int) (address string, silent <-chan struct{}) {
	stopped := make(chan struct{})
	var first sync.Once
	return mctest.StartScript(t, func(p *mctest.Peer) {
		for range n {
			if _, ok := p.Line(); !ok {
				return
			}
			p.Send("END\r\n")
		}
		if _, ok := p.Line(); ok {
			first.Do(func() { close(stopped) })
			p.Stall()
		}
	}).Addr(), stopped
}

// runUntil runs the load until happened is closed.
func runUntil(t *testing.T, g *load.Generator, happened <-chan struct{}) (*load.Result, error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	type outcome struct {
		result *load.Result
		err    error
	}
	ended := make(chan outcome, 1)
	go func() {
		result, err := g.Run(ctx)
		ended <- outcome{result, err}
	}()
	limit := time.After(mctest.Patience)
	for {
		select {
		case <-happened:
			cancel()
			happened = nil
		case o := <-ended:
			require.Nil(t, happened, "the run ended too early")
			return o.result, o.err
		case <-limit:
			t.Fatal("the run did not end, or happened was not closed")
		}
	}
}

func TestARunInterruptedBeforeRecordingIsAnError(t *testing.T) {
	address, silent := silentAfter(t, 3)
	g, err := load.New(load.Options{Targets: []string{address}, Gets: 1, WarmUp: time.Hour})
	require.NoError(t, err)
	_, err = runUntil(t, g, silent)
	assert.EqualError(t, err, "the run ended before the end of its warm-up of 1h0m0s: nothing was recorded")
}

func TestErrorRepliesAreCountedAndTheLoadContinues(t *testing.T) {
	server := mctest.StartMemcached(t)
	r := run(t, load.Options{
		Targets: []string{server.Addr()}, Sets: 1, Gets: 1, ValueSize: 2 << 20, Connections: 2,
		Pipeline: 4, Requests: 20,
	})
	assert.EqualValues(t, 40, r.Total.Requests)
	assert.EqualValues(t, 20, r.Commands["SET"].Failures)
	assert.Equal(t, "SERVER_ERROR object too large for cache", r.FirstFailure)
	assert.Zero(t, r.Commands["GET"].Failures)
	assert.EqualValues(t, 20, r.Commands["GET"].Misses)
}

// script starts a server that answers the first request with reply and sends nothing more.
func script(t *testing.T, reply string) string {
	return mctest.StartScript(t, func(p *mctest.Peer) {
		if _, ok := p.Line(); ok {
			p.Send(reply)
			p.Stall()
		}
	}).Addr()
}

func TestATargetThatMisbehavesEndsTheRunWithAClearError(t *testing.T) {
	refuses := mctest.Refusing(t)
	const silence = 200 * time.Millisecond // the timeout for targets that stop answering
	for _, tt := range []struct {
		name   string
		target string
		want   string
	}{
		{"refuses", refuses, "connection 1 of 1: target " + refuses + ": dial tcp " + refuses +
			": connect: connection refused"},
		{
			"no such socket", "unix:/nonexistent/socket",
			"target unix:/nonexistent/socket: dial unix /nonexistent/socket: connect: no such file or directory",
		},
		{"says nothing", script(t, ""), "no reply to GET for 200ms (1 requests outstanding on that connection)"},
		{"stops in a value", script(t, "VALUE memtier-7 0 10\r\nmemti"), "no reply to GET for 200ms"},
		{
			"answers something else", script(t, "HTTP/1.1 400 Bad Request\r\n"),
			`not a reply to GET: "HTTP/1.1 400 Bad Request\r\n"`,
		},
		{"answers twice", script(t, "END\r\nEND\r\n"), "no request"},
		{"sends a broken value line", script(t, "VALUE memtier-7 0\r\n"), "expected VALUE <key> <flags> <bytes>"},
		{
			"sends a value longer than it says", script(t, "VALUE memtier-7 0 3\r\nmemtier\r\nEND\r\n"),
			"doesn't end where its length says",
		},
		{
			"sends another key", script(t, "VALUE memtier-8 0 3\r\nmem\r\nEND\r\n"),
			`wrong key: requested memtier-7, got the value of "memtier-8"`,
		},
		{
			"sends another value", script(t, "VALUE memtier-7 0 9\r\nmemtier-8\r\nEND\r\n"),
			"wrong value for key memtier-7 (9 bytes): from byte 0 on",
		},
		{
			"sends a key twice", script(t, "VALUE memtier-7 0 1\r\nm\r\nVALUE memtier-7 0 1\r\nm\r\nEND\r\n"),
			"2 values for 1 keys of a GET",
		},
		{
			"ends the connection", mctest.StartScript(t, func(p *mctest.Peer) { p.Line() }).Addr(),
			"the connection broke with 1 requests unanswered: end of file",
		},
		{
			"resets the connection", mctest.StartScript(t, func(p *mctest.Peer) { p.Line(); p.Reset() }).Addr(),
			"the connection broke with 1 requests unanswered: connection reset by peer",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			timeout := mctest.Patience
			if strings.Contains(tt.want, silence.String()) {
				timeout = silence
			}
			_, err := tryRun(t, load.Options{
				Targets: []string{tt.target}, Gets: 1, KeyMin: 7, KeyMax: 7, Requests: 2, Verify: true,
				Timeout: timeout,
			})
			require.Error(t, err)
			assert.ErrorContains(t, err, tt.want)
			assert.Equal(t, strings.Count(err.Error(), "\n"), 0, "one error, one line")
			assert.ErrorContains(t, err, tt.target)
		})
	}
}

func TestAfterAnErrorOfOneConnectionTheResultOfTheOthersIsReturned(t *testing.T) {
	server := mctest.StartMemcached(t)
	bad := mctest.StartScript(t, func(p *mctest.Peer) {
		for range 5 {
			p.Line()
			p.Send("END\r\n")
		}
	})
	r, err := tryRun(t, load.Options{
		Targets: []string{server.Addr(), bad.Addr()}, Threads: 2, Connections: 2, Gets: 1, Duration: time.Hour,
	})
	assert.ErrorContains(t, err, "target "+bad.Addr()+": the connection broke with 1 requests unanswered")
	require.NotNil(t, r)
	assert.GreaterOrEqual(t, r.Total.Requests, uint64(5))
	assert.Less(t, r.Generator.CPU(), time.Hour)
}

func TestAServerThatStallsAtTheEndDoesNotDelayTheEndOfTheRun(t *testing.T) {
	address, silent := silentAfter(t, 3)
	g, err := load.New(load.Options{Targets: []string{address}, Connections: 4, Gets: 1})
	require.NoError(t, err)
	r, err := runUntil(t, g, silent)
	require.NoError(t, err)
	assert.True(t, r.Interrupted)
}

func TestPopulateEndsWithItsContext(t *testing.T) {
	silent := mctest.StartScript(t, func(p *mctest.Peer) { p.Stall() })
	g, err := load.New(load.Options{Targets: []string{silent.Addr()}, Populate: true, Timeout: time.Hour})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(50*time.Millisecond, cancel)
	_, err = g.Run(ctx)
	assert.ErrorIs(t, err, context.Canceled)
	assert.ErrorContains(t, err, silent.Addr())
}

func TestPopulateNamesTheKeyThatCouldNotBeStored(t *testing.T) {
	server := mctest.StartMemcached(t)
	_, err := tryRun(t, load.Options{Targets: []string{server.Addr()}, Populate: true, ValueSize: 2 << 20, Requests: 1})
	assert.EqualError(t, err, fmt.Sprintf(
		`populating: target %s: storing key memtier-1: the target answered "SERVER_ERROR object too large for cache"`,
		server.Addr()))
}

func TestNothingIsLeftOpenAfterARun(t *testing.T) {
	server := mctest.StartMemcached(t)
	open := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		require.NoError(t, err)
		return len(entries)
	}
	o := load.Options{Targets: []string{server.Addr()}, Threads: 2, Connections: 20, Requests: 10, Populate: true}
	run(t, o)
	before := open()
	for range 3 {
		run(t, o)
	}
	assert.Equal(t, before, open())
}

func TestOptionsOutOfRangeAreRefusedWithWhatIsAccepted(t *testing.T) {
	target := []string{"127.0.0.1:11211"}
	for want, o := range map[string]load.Options{
		"no target: expected at least one":                      {},
		`target "unix:": expected host:port or unix:/path`:      {Targets: []string{"unix:"}},
		"threads -1: expected 1 to 1024":                        {Targets: target, Threads: -1, Connections: 1},
		"expected at least one for each of the 4 threads":       {Targets: target, Threads: 4, Connections: 2},
		"pipeline -2: expected 1 to 65536":                      {Targets: target, Pipeline: -2},
		"SETs of the ratio -1":                                  {Targets: target, Sets: -1},
		"keys 9 to 3: expected the smallest first":              {Targets: target, KeyMin: 9, KeyMax: 3},
		"key prefix of 250 bytes: keys would have up to 255 by": {Targets: target, KeyPrefix: strings.Repeat("k", 250)},
		`key prefix "a b": a key can't contain spaces`:          {Targets: target, KeyPrefix: "a b"},
		"value size -4: expected 1 to":                          {Targets: target, ValueSize: -4},
		"duration -1s: expected at least 0":                     {Targets: target, Duration: -time.Second},
		"a cool-down of 1s: it requires a closed loop":          {Targets: target, CoolDown: time.Second},
		"a warm-up of 1s with 5 requests per connection":        {Targets: target, WarmUp: time.Second, Requests: 5},
		"value sizes 9 to 3: expected 1 to":                     {Targets: target, Sizes: load.Sizes{Min: 9, Max: 3}},
		"by a list: it can't be combined": {
			Targets: target,
			Sizes:   load.Sizes{Min: 1, Max: 3, List: []load.WeightedSize{{1, 1}}},
		},
		"they require a range of sizes": {Targets: target, Sizes: load.Sizes{ByKey: true}},
		"value size 0 with the weight 1": {
			Targets: target,
			Sizes:   load.Sizes{List: []load.WeightedSize{{0, 1}}},
		},
		"expected a weight above 0": {
			Targets: target,
			Sizes:   load.Sizes{List: []load.WeightedSize{{5, 0}}},
		},
		"expected a spread above 0": {
			Targets: target,
			Sizes:   load.Sizes{Min: 1, Max: 3, Distribution: load.Distribution{Kind: "normal", A: 2}},
		},
		`key pattern "X": expected R, S, P, G or Z`: {Targets: target, GetKeys: 'X'},
		"median key 99: expected one of the keys 1000 to 10000": {
			Targets: target, KeyMedian: 99, KeyMin: 1000,
			KeyMax: 10000,
		},
		"exponent of Zipf's distribution -1": {Targets: target, ZipfExponent: -1},
		"smallest expiry 9: expected 1 to 5": {Targets: target, ExpiryMin: 9, ExpiryMax: 5},
		"think times are for closed loops": {
			Targets: target, ThinkTime: 1,
			Schedule: load.Constant(1),
		},
		"the schedule has no rate":                              {Targets: target, Schedule: &load.Schedule{}},
		"they can't contain spaces":                             {Targets: target, Password: "a b"},
		"largest key 18446744073709551615: expected at most 92": {Targets: target, KeyMax: 1<<64 - 1},
	} {
		_, err := load.New(o)
		assert.ErrorContains(t, err, want)
	}
	_, err := load.New(load.Options{Threads: -1, Connections: -1})
	assert.ErrorContains(t, err, "no target")
	assert.ErrorContains(t, err, "threads -1", "all problems are reported at once")
}

func TestAVeryShortRunStillSendsOneRequestPerConnection(t *testing.T) {
	server := mctest.StartMemcached(t)
	r := run(t, load.Options{Targets: []string{server.Addr()}, Threads: 2, Connections: 10, Duration: time.Nanosecond})
	assert.EqualValues(t, 10, r.Total.Requests)
}

func TestCacheAsideStoresMissedKeys(t *testing.T) {
	for name, o := range map[string]load.Options{
		"closed loop": {Gets: 1, Requests: 100},
		"pipelined":   {Gets: 1, Requests: 100, Pipeline: 8, Verify: true},
		"open loop":   {Gets: 1, Requests: 100, Schedule: load.Constant(20000)},
	} {
		t.Run(name, func(t *testing.T) {
			server := mctest.StartMemcached(t)
			o.Targets, o.CacheAside, o.KeyMin, o.KeyMax, o.GetKeys = []string{server.Addr()}, true, 1, 10,
				load.Sequential
			r := run(t, o)
			gets, sets := r.Commands["GET"], r.Commands["SET"]
			assert.EqualValues(t, 100, gets.Requests, "SETs of missed keys are additional")
			assert.Equal(t, gets.Misses, sets.Requests)
			assert.GreaterOrEqual(t, sets.Requests, uint64(10))
			assert.Positive(t, gets.Hits, "later GETs find the stored keys")
			if o.Pipeline == 0 && o.Schedule == nil {
				assert.EqualValues(t, 10, sets.Requests)
			}
			assert.Zero(t, r.Total.Failures)
			assert.True(t, r.CacheAside)
		})
	}
	_, err := load.New(load.Options{Targets: []string{"a:1"}, CacheAside: true, Gets: 1, KeysPerGet: 2})
	require.ErrorContains(t, err, "cache-aside: it requires GETs of one key each")
}

func TestForPoissonArrivalsTheShareSentTogetherIsReported(t *testing.T) {
	server := mctest.StartMemcached(t)
	s := load.Constant(5000)
	s.Poisson = true
	r := run(t, load.Options{
		Targets: []string{server.Addr()}, Gets: 1, Connections: 8, Schedule: s,
		Duration: 300 * time.Millisecond,
	})
	require.NotNil(t, r.Pace)
	// 1 - exp(-5000/s 0.1 ms) = 39 % are due within a tenth of a millisecond.
	assert.InDelta(t, 0.39, r.Pace.DueTogether, 0.05)
	assert.Greater(t, r.Pace.SentTogether, 0.0)
	var text strings.Builder
	require.NoError(t, r.WriteText(&text))
	assert.Regexp(t,
		`\d+ % were sent within 0.1 ms of the previous one, where Poisson arrivals at this rate would be \d+ %`,
		text.String())
}

func TestConnectionsAreReopenedAndNoRequestIsLost(t *testing.T) {
	for name, o := range map[string]load.Options{
		"closed loop": {Connections: 3, Threads: 2, Requests: 100, ReconnectAfter: 10},
		"pipelined":   {Connections: 2, Requests: 95, Pipeline: 16, ReconnectAfter: 10, HoldProcessors: true},
		"open loop":   {Connections: 4, Requests: 50, ReconnectAfter: 7, Schedule: load.Constant(4000)},
		"cache-aside": {
			Connections: 1, Requests: 30, Gets: 1, ReconnectAfter: 1, CacheAside: true,
			GetKeys: load.Sequential,
		},
		"for a time": {Connections: 4, Duration: 100 * time.Millisecond, ReconnectAfter: 5},
	} {
		t.Run(name, func(t *testing.T) {
			server := mctest.StartMemcached(t)
			o.Targets, o.KeyMin, o.KeyMax = []string{server.Addr()}, 1, 10
			r := run(t, o)
			if o.Requests > 0 && !o.CacheAside {
				assert.EqualValues(t, o.Requests*o.Connections, r.Total.Requests)
			}
			assert.Zero(t, r.Total.Failures)
			if o.Requests == 0 {
				return // the number depends on the speed of the machine
			}
			assert.Positive(t, r.Reconnects)
			if !o.CacheAside {
				// A connection whose last request uses up its quota is not reopened.
				assert.LessOrEqual(t, r.Reconnects, uint64(o.Connections*((o.Requests-1)/o.ReconnectAfter)))
			}
			assert.Positive(t, r.ConnectMean)
		})
	}
	server := mctest.StartMemcached(t)
	g, err := load.New(load.Options{Targets: []string{server.Addr()}, Duration: time.Minute, ReconnectAfter: 3})
	require.NoError(t, err)
	server.Stop()
	_, err = g.Run(context.Background())
	require.Error(t, err, "the end of the server ends the load")
}
