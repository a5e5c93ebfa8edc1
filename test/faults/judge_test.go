package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/lab/process"
	"mcmw/test/history"
)

// A busy machine can suspend a healthy server for longer than a timeout.
func TestAnErrorInTheReadsAtTheEndIsUnexpectedAndNoAnswerBreaksAPromise(t *testing.T) {
	read := func(answer string) *Result {
		server := mctest.StartScript(t, func(p *mctest.Peer) {
			p.Line()
			p.Send(answer)
		})
		l := history.Start(history.Options{
			Addrs: []string{mctest.Refusing(t)}, Clients: 1, Rate: 1, Prefix: "a-",
			Manners: history.Manners{Restarts: true},
		})
		l.Stop()
		r := &Result{}
		r.audit(t.Context(), l, "reading", server.Addr(), 1)
		return r
	}
	late := read("SERVER_ERROR server-3: no reply in time\r\n")
	assert.Empty(t, late.Broken)
	require.Len(t, late.Unexpected, 1)
	assert.Regexp(t, `^reading: get a-\S+: SERVER_ERROR server-3: no reply in time$`, late.Unexpected[0])
	gone := read("")
	assert.Empty(t, gone.Unexpected)
	require.Len(t, gone.Broken, 1)
	assert.Regexp(t, `^reading: get a-\S+: EOF$`, gone.Broken[0])
}

func TestAnIncrementMayFailWithTheServerThatDecidesIt(t *testing.T) {
	const text = "server-2: connection reset by peer"
	unexpected := func(class history.Class, counts string) []string {
		v := &history.Verified{}
		v.Failures[class] = map[string]*history.ErrorCount{text: {Text: text, Count: 1, First: "a"}}
		var r Result
		r.judge(v, Scenario{counts: counts})
		return r.Unexpected
	}
	assert.Empty(t, unexpected(history.Increments, byVictim))
	assert.Equal(t, []string{`1 increments failed with "server-2: connection reset by peer", first a`},
		unexpected(history.Increments, ""))
	assert.Equal(t, []string{`1 writes failed with "server-2: connection reset by peer", first a`},
		unexpected(history.Writes, byVictim))
}

func TestTheLogShowsWhenAServerIsUp(t *testing.T) {
	e := &events{}
	log := process.Lines{Take: e.take}
	start := time.Now()
	for _, part := range []string{
		`{"time":"x","msg":"a server is stale","ser`, `ver":"server-2"}` + "\n" + `not JSON` + "\n" +
			`{"msg":"ready"}` + "\n",
		`{"msg":"a server is up","server":"server-2"}` + "\n",
	} {
		n, err := log.Write([]byte(part))
		require.NoError(t, err)
		require.Equal(t, len(part), n)
	}
	require.Len(t, e.list, 2)
	for at, up := range []bool{false, true} {
		assert.Equal(t, []time.Time{e.list[at].at}, e.times(up, start))
		assert.Empty(t, e.times(up, time.Now()))
	}
}

func TestMoreGoroutinesThanBeforeAreNamedByTheFunctionsThatTheyRun(t *testing.T) {
	const stack = "%d @ 0x1 0x2\n" +
		"#\t0x1\tmcmw/internal/queue.(*Queue).Take+0x174\t/queue.go:36\n" +
		"#\t0x2\tmcmw/internal/middleware.(*core).start.func1+0x44\t/core.go:337\n" +
		"#\t0x3\tsync.(*WaitGroup).Go.func1+0x49\t/waitgroup.go:258\n\n%d @ " +
		"0x5\n#\t0x5\tmain.main.func1+0x26\t/main.go:38\n\n"
	footprint := func(n, workers, mains int) Footprint {
		entries,
			err := entriesOf(strings.NewReader(fmt.Sprintf("goroutine profile: total %d\n"+stack+
			"1 @ 0x4\n#\t0x4\tos/signal.loop+0x12\t/signal.go:23\n\n", n, workers, mains)))
		require.NoError(t, err)
		return Footprint{Goroutines: n, entries: entries}
	}
	for _, tc := range []struct {
		before, after Footprint
		broken        []string
	}{
		{footprint(7, 5, 1), footprint(7, 5, 1), nil},
		{
			footprint(7, 5, 1), footprint(10, 7, 2),
			[]string{"goroutines: 7 before, 10 after; new: 1 of main.main.func1, 2 of " +
				"mcmw/internal/middleware.(*core).start.func1"},
		},
		{
			footprint(7, 5, 1), footprint(8, 5, 1),
			[]string{"goroutines: 7 before, 8 after; new: none with a function of mcmw"},
		},
	} {
		r := Result{Before: tc.before, After: tc.after}
		r.invariants(nil)
		assert.Equal(t, tc.broken, r.Broken)
	}
}
