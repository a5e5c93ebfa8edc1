package load_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/lab/load"
)

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

func TestPopulateStoresEachKeyOnceOverSeveralConnections(t *testing.T) {
	const keys = 200
	var mu sync.Mutex
	stored := map[string]int{}
	second := make(chan struct{}) // closed when a second connection has asked: none gets an answer before
	server := mctest.StartScript(t, func(p *mctest.Peer) {
		for first := true; ; first = false {
			line, ok := p.Line()
			if _, value := p.Line(); !ok || !value {
				return
			}
			if first && p.N == 1 {
				close(second)
			}
			select {
			case <-second:
			case <-t.Context().Done():
				return
			}
			mu.Lock()
			stored[strings.Fields(line)[1]]++
			mu.Unlock()
			p.Send("STORED\r\n")
		}
	})
	require.NoError(t, load.Populate(t.Context(), load.Options{
		Targets: []string{server.Addr()}, KeyMin: 1, KeyMax: keys, Gets: 1,
	}))
	require.Len(t, stored, keys)
	for key, times := range stored {
		assert.Equal(t, 1, times, key)
	}
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
		"pipelined":   {Connections: 2, Requests: 95, Pipeline: 16, ReconnectAfter: 10},
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
