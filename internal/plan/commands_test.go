package plan

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/protocol"
	"mcmw/internal/request"
	"mcmw/internal/route"
	"mcmw/internal/stats"
	"mcmw/internal/wire"
)

func TestAFlushReachesAllServersAndIsAnsweredByTheLastError(t *testing.T) {
	x := plan(t, setup{replicas: 2})
	i := x.request("flush_all 5")
	assert.Equal(t, []string{"0: flush_all 5", "1: flush_all 5", "2: flush_all 5"}, x.calls())
	x.reply(0, "OK\r\n")
	x.lose(2)
	x.reply(1, "SERVER_ERROR last\r\n")
	assert.Equal(t, "SERVER_ERROR last\r\n", x.answer(i))
	assert.True(t, x.Requests[i].IsFlush())
}

func TestStatisticsOfSeveralServersAreNamedByServer(t *testing.T) {
	x := plan(t, setup{servers: 2})
	i := x.request("stats servers items")
	x.reply(0, "STAT a 1\r\nEND\r\n")
	x.lose(1)
	assert.Equal(t, "STAT s0:a 1\r\nSTAT s1:error SERVER_ERROR s1: gone\r\nEND\r\n", x.answer(i))
	i = x.request("stats reset")
	x.reply(2, "RESET\r\n")
	x.reply(3, "RESET\r\n")
	assert.Equal(t, "RESET\r\n", x.answer(i))
}

func TestStatisticsWithoutAnArgumentAreTheOwnAndTheSumsOverTheServersThatAnswer(t *testing.T) {
	x := plan(t, setup{servers: 3})
	x.Servers[2].Suspect = true
	i := x.request("stats")
	assert.Equal(t, []string{"0: stats", "1: stats"}, x.calls())
	x.reply(0, "STAT own 7\r\nSTAT items 2\r\nSTAT libevent 2.1\r\nEND\r\n")
	x.reply(1, "STAT own 7\r\nSTAT items 3\r\nSTAT libevent 2.1\r\nEND\r\n")
	assert.Equal(t, "STAT own 1\r\nSTAT items 5\r\nSTAT libevent 2.1\r\nEND\r\n", x.answer(i))
	i = x.request("stats")
	x.lose(2)
	x.reply(3, "ERROR\r\n")
	assert.Equal(t, "STAT own 1\r\nEND\r\n", x.answer(i))
	for s := range x.Servers {
		x.Servers[s] = Server{}
	}
	i = x.request("stats")
	assert.Empty(t, x.CallsOf(i))
	assert.Equal(t, "STAT own 1\r\nEND\r\n", x.answer(i))
	result, _ := x.Result(i)
	assert.Equal(t, stats.ResultOK, result)
}

func TestARequestThatMayHaveNoReplyEndsAsTheReplyBeforeItsFenceSays(t *testing.T) {
	for reply, want := range map[string]stats.Result{
		"": stats.ResultOK, "VA 1\r\nx\r\n": stats.ResultOK, "EN\r\n": stats.ResultMiss,
		"SERVER_ERROR out of memory\r\n":           stats.ResultServerError,
		"CLIENT_ERROR bad command line format\r\n": stats.ResultClientError,
	} {
		x := plan(t, setup{servers: 1})
		i := x.request("mg a v q")
		x.reply(0, reply+protocol.TextMetaNoop)
		result, _ := x.Result(i)
		assert.Equal(t, want, result, reply)
	}
}

func TestACommandForOneServerGoesToTheFirstOrIsRefused(t *testing.T) {
	x := plan(t, setup{servers: 2})
	i := x.request("version")
	assert.Equal(t, []string{"0: version"}, x.calls())
	x.reply(0, "VERSION 1\r\n")
	assert.Equal(t, "VERSION 1\r\n", x.answer(i))
	i = x.request("slabs automove 1")
	assert.Contains(t, x.answer(i), "CLIENT_ERROR slabs is for one server")
	result, _ := x.Result(i)
	assert.Equal(t, stats.ResultClientError, result)

	x = plan(t, setup{servers: 1})
	i = x.request("slabs automove 1")
	assert.Equal(t, []string{"0: slabs automove 1 mn"}, x.calls())
	x.reply(0, "OK\r\nMN\r\n")
	assert.Equal(t, "OK\r\n", x.answer(i))
}

func TestARefusedRequestThatStillHasAnEffectReachesTheServers(t *testing.T) {
	x := plan(t, setup{})
	x.limits.MaxValue = 4
	i := x.request("set a 0 0 9\r\n123456789")
	assert.Len(t, x.calls(), 3)
	for n := range 3 {
		x.reply(n, "DELETED\r\n")
	}
	assert.Equal(t, protocol.TextTooLarge, x.answer(i))
	i = x.request("ms YSBi 9 b\r\n123456789")
	assert.Equal(t, "md YSBi b", x.calls()[0][3:])
	for n := range 3 {
		x.reply(3+n, "HD\r\n")
	}
	assert.Equal(t, protocol.TextTooLarge, x.answer(i))
	i = x.request("get a " + strings.Repeat("b", 251))
	assert.Equal(t, ": get a", x.calls()[0][1:])
	x.lose(6)
	assert.Equal(t, protocol.TextBadFormat, x.answer(i))
	i = x.request("nonsense")
	assert.Equal(t, protocol.TextError, x.answer(i))
	i = x.request("delete a noreply")
	for n := range 3 {
		x.reply(7+n, "DELETED\r\n")
	}
	assert.Empty(t, x.answer(i))
	assert.False(t, x.Requests[i].Idle())
	assert.True(t, x.Requests[i].Changes())
}

func TestEachRequestTakesTheLocksThatKeepReplicasEqual(t *testing.T) {
	x := plan(t, setup{})
	for line, want := range map[string]LockKind{
		"get a": LockWait, "get b c": LockWait, "gat 0 d e": LockHold, "set f 0 0 1\r\nx": LockHold,
		"cas g 0 0 1 1\r\nx": LockAlone, "flush_all": LockAll,
		"version": LockNone, "stats": LockNone, "nonsense": LockNone,
	} {
		i := x.request(line)
		l, ok := x.Locks(i, false)
		assert.True(t, ok, line)
		assert.Equal(t, want, l.Kind, line)
		assert.Equal(t, string(x.Requests[i].Request.Key(nil)), string(x.Requests[i].Key()), line)
		if want != LockNone && want != LockAll {
			assert.Len(t, l.Stripes, int(x.Requests[i].NumKeys))
		}
		assert.Equal(t, line == "flush_all", l.Stripes == nil && want == LockAll)
	}
	// A request after a read of its key waits for another round, unless the read belongs to another part.
	_, ok := x.Locks(x.request("get a"), true)
	assert.True(t, ok)
	_, ok = x.Locks(x.request("set a 0 0 1\r\nx"), true)
	assert.False(t, ok)
	x.DropLast()
	x.Part()
	_, ok = x.Locks(x.request("set a 0 0 1\r\nx"), true)
	assert.True(t, ok)

	x = plan(t, setup{servers: 3, replicas: 1})
	l, ok := x.Locks(x.request("set a 0 0 1\r\nx"), false)
	assert.True(t, ok)
	assert.Equal(t, LockNone, l.Kind, "with one replica there is no disagreement")
}

func TestReadsMayBeRepeatedUnlessALaterRequestWritesTheirKeys(t *testing.T) {
	for lines, want := range map[string]bool{
		"get a|get a|get b": true, "get a|set b 0 0 0\r\n": true, "set a 0 0 0\r\n|get a": true,
		"get a|set a 0 0 0\r\n": false, "gat 9 a": true, "gat -1 a": false, "get b|gat -1 a": false,
		"get a|flush_all": false, "flush_all|get a": true, "get a b|touch b 0": false,
	} {
		x := plan(t, setup{})
		for line := range strings.SplitSeq(lines, "|") {
			x.request(line)
		}
		assert.Equal(t, want, x.Repeatable(0, int32(len(x.Requests))), lines)
	}
}

func TestARequestIsTroubledOnlyByServersThatItNeeds(t *testing.T) {
	x := plan(t, setup{servers: 3, replicas: 2})
	k, other := x.key(0, 1, 2), x.key(0, 2, 0)
	trouble := func(line string) int { return x.Troubled(x.request(line)) }
	x.Servers[1].Suspect = true
	for line, want := range map[string]int{
		"get " + k: 1, "mg " + k + " v": 1, "gets " + k: 1, "set " + k + " 0 0 0\r\n": 1, "get " + other + " " + k: 1,
		"get " + other: -1, "set " + other + " 0 0 0\r\n": -1, "flush_all": 1, "version": -1, "stats": -1,
		"nonsense": -1,
	} {
		assert.Equal(t, want, trouble(line), line)
	}
	x.Servers[1] = Server{Recovers: true}
	assert.Equal(t, -1, trouble("get "+k), "the other server can be read")
	assert.Equal(t, -1, trouble("set "+k+" 0 0 0\r\n"))
	x.Servers[2] = Server{}
	assert.Equal(t, 1, trouble("get "+k), "the request must wait for it")
	assert.Equal(t, 1, trouble("cas "+k+" 0 0 0 1\r\n"))

	x = plan(t, setup{})
	x.Servers[0].Suspect = true
	assert.Equal(t, -1, trouble("get a"), "another server is read")
	assert.Equal(t, -1, trouble("version"), "another server tells it")
}

func TestFollowsSaysForWhatTimeMustBeLeft(t *testing.T) {
	x := plan(t, setup{servers: 3, replicas: 2})
	x.request("get a")
	assert.Equal(t, FollowsRead, x.Follows(0))
	x.lose(0)
	x.next()
	assert.Equal(t, FollowsNothing, x.Follows(1), "there are two replicas")
	x = plan(t, setup{servers: 3, replicas: 1})
	x.request("get a")
	assert.Equal(t, FollowsNothing, x.Follows(0))
	assert.False(t, x.Movable(0))
	x = plan(t, setup{})
	x.request("get a")
	assert.True(t, x.Movable(0))
	x.request("gets a")
	assert.False(t, x.Movable(1))
}

// take returns the answer of a request whose values were cut, and leaves the rest of it for another round.
func take(x *script, i int32) (answer string, r *request.Request) {
	var g wire.Gather
	rest := x.Answer(i, &g, nil)
	r = x.Requests[i].Request
	if rest >= 0 {
		x.Postpone(i, rest)
		r.Resumed = 1
	}
	return string(g.AppendFrom(nil, 0)), r
}

func TestALongRetrievalIsAnsweredInPortions(t *testing.T) {
	for _, servers := range []int{1, 3} {
		x := plan(t, setup{servers: servers, replicas: 1})
		keys := []string{"a", "b", "c", "d", "e"}
		r := &request.Request{}
		_, _, err := x.limits.Decode([]byte("get "+strings.Join(keys, " ")+"\r\n"), &r.Request)
		require.NoError(t, err)
		var got string
		for rounds := 0; rounds < 3; rounds++ {
			i := x.Add(r)
			more := x.Limit(i, 2)
			assert.Equal(t, rounds < 2, more)
			x.Plan(i)
			for n := range x.CallsOf(i) {
				n += int(x.Requests[i].first)
				var reply string
				for key := range strings.FieldsSeq(string(x.Calls[n].keys)) {
					if key != "c" {
						reply += "VALUE " + key + " 0 1\r\nx\r\n"
					}
				}
				x.reply(n, reply+"END\r\n")
			}
			var part string
			part, r = take(x, i)
			got += part
			if !more {
				result, hits := x.Result(i)
				assert.Equal(t, stats.ResultPartial, result)
				assert.Equal(t, 4, hits)
				assert.Equal(t, 5, x.Requests[i].KeysAsked())
			}
			x.Reset()
			clear(x.settled)
		}
		assert.Equal(t, "VALUE a 0 1\r\nx\r\nVALUE b 0 1\r\nx\r\nVALUE d 0 1\r\nx\r\nVALUE e 0 1\r\nx\r\nEND\r\n", got)
	}
}

func TestAValueThatIsNotKeptIsAskedForAgain(t *testing.T) {
	for _, s := range []setup{{servers: 1}, {options: Options{Sharded: true}}, {servers: 2, replicas: 1}} {
		x := plan(t, s)
		i := x.request("get a b c d")
		for n := range x.CallsOf(i) {
			var reply []byte
			var rep protocol.Reply
			for key := range strings.FieldsSeq(string(x.Calls[n].keys)) {
				element := "VALUE " + key + " 0 1\r\nx\r\n"
				_, _, err := protocol.DecodeReply([]byte(element), &rep)
				require.NoError(t, err)
				_, value, ok := x.Element(int32(n), &rep, []byte(element), len(reply), len(reply)+len(element))
				require.True(t, ok && value)
				if key >= "c" {
					x.Cut(int32(n))
				} else {
					reply = append(reply, element...)
				}
			}
			rep.Kind = protocol.ReplyEnd
			if !x.Calls[n].Dropped() {
				reply = append(reply, "END\r\n"...)
			}
			if x.Done(int32(n), rep.Kind, reply) {
				x.settle(i)
			}
		}
		answer, r := take(x, i)
		assert.Equal(t, "VALUE a 0 1\r\nx\r\nVALUE b 0 1\r\nx\r\n", answer, "%+v", s)
		assert.Equal(t, "c d", string(r.Keys))
		assert.EqualValues(t, 2, r.NumKeys)
		assert.EqualValues(t, 2, r.SentHits)
		assert.EqualValues(t, 2, r.SentKeys)
	}
	x := plan(t, setup{})
	i := x.request("mg a v")
	rep := protocol.Reply{Kind: protocol.ReplyMetaValue}
	_, value, ok := x.Element(0, &rep, []byte("VA 1\r\nx\r\n"), 0, 9)
	require.True(t, ok && value)
	x.Cut(0)
	require.True(t, x.Done(0, rep.Kind, nil))
	x.settle(i)
	answer, r := take(x, i)
	assert.Empty(t, answer)
	assert.Equal(t, "a", string(r.Keys))
	i = x.Add(r)
	x.Plan(i)
	assert.Equal(t, "mg a v\r\n", string(x.Calls[1].Bytes[0]))
	x.Forget(i)
}

func TestAValueThatIsTooLargeIsAnErrorInPlaceOfTheReply(t *testing.T) {
	for line, ends := range map[string]string{"get a b": "END\r\n", "mg a v": "", "mg a v q": "MN\r\n"} {
		x := plan(t, setup{servers: 1})
		i := x.request(line)
		rep := protocol.Reply{Kind: protocol.ReplyValue, Key: []byte("a"), Data: 1<<10 + 1}
		if line[0] == 'm' {
			rep.Kind = protocol.ReplyMetaValue
		}
		last, value, ok := x.Element(0, &rep, []byte("VA 1025\r\n"), 0, 9)
		require.True(t, ok && !value && !last)
		rep = protocol.Reply{Kind: protocol.ReplyText}
		last, _, ok = x.Element(0, &rep, []byte("\r\n"), 0, 2)
		require.True(t, ok)
		assert.Equal(t, line == "mg a v", last)
		if ends != "" {
			_, _, err := protocol.DecodeReply([]byte(ends), &rep)
			require.NoError(t, err)
			last, _, ok = x.Element(0, &rep, []byte(ends), 2, 2+len(ends))
			require.True(t, ok && last)
		}
		require.True(t, x.Done(0, rep.Kind, nil))
		x.settle(i)
		assert.Equal(t, "SERVER_ERROR a value of 1025 bytes; accepted: up to 1024 (--max-value)\r\n", x.answer(i))
		result, hits := x.Result(i)
		assert.Equal(t, stats.ResultServerError, result)
		assert.Zero(t, hits)
	}
}

func TestPlanningAllocatesNothing(t *testing.T) {
	planningAllocatesNothing(t, plan(t, setup{options: Options{Sharded: true}}))

	main := []route.Server{{Name: "s0"}, {Name: "s1"}}
	split, err := route.NewPools([]route.Pool{
		{Name: "main", Servers: main},
		{Name: "copy", Servers: []route.Server{{Name: "s2"}}},
	}, route.Routes{Default: "main", Reads: "copy"})
	require.NoError(t, err)
	planningAllocatesNothing(t, plan(t, setup{options: Options{Sharded: true, Router: split, Pools: make([]Pool, 2)}}))
}

func planningAllocatesNothing(t *testing.T, x *script) {
	t.Helper()
	var requests []*request.Request
	for _, line := range []string{
		"get a", "get a b c d e", "set a 0 0 1\r\nx", "ms b 1 q\r\nx", "mg a v", "gat 0 a",
		"cas a 0 0 1 1\r\nx",
	} {
		r := &request.Request{}
		_, _, err := x.limits.Decode([]byte(line+"\r\n"), &r.Request)
		require.NoError(t, err)
		requests = append(requests, r)
	}
	replies := map[string][]byte{
		"g": []byte("END\r\n"), "s": []byte("STORED\r\n"), "c": []byte("STORED\r\n"),
		"ms": []byte("HD\r\n"), "mg": []byte("EN\r\n"), "t": []byte("TOUCHED\r\n"),
	}
	var g wire.Gather
	round := func() {
		for _, r := range requests {
			x.Part()
			i := x.Add(r)
			_, _ = x.Locks(i, true)
			_ = x.Troubled(i)
			from := len(x.Calls)
			x.Plan(i)
			for n := from; n < len(x.Calls); n++ {
				first := x.Calls[n].Bytes[0]
				reply, ok := replies[string(first[:2])]
				if !ok {
					reply = replies[string(first[:1])]
				}
				var rep protocol.Reply
				_, _, _ = protocol.DecodeReply(reply, &rep)
				_, _, _ = x.Element(int32(n), &rep, reply, 0, len(reply))
				if x.Done(int32(n), rep.Kind, reply) && x.End(i, true) {
					x.Next(i)
				}
			}
			_ = x.Answer(i, &g, nil)
			_, _ = x.Result(i)
		}
		g.Reset()
		x.Reset()
	}
	round()
	assert.Zero(t, testing.AllocsPerRun(100, round))
}

// unversioned says that the items of no pool have versions.
func unversioned(int) bool { return false }

func TestEachRequestGetsALaneOfAServerThatItNeeds(t *testing.T) {
	x := plan(t, setup{servers: 4, replicas: 2})
	router, err := route.New(x.options.Router.Servers(), route.Options{Replicas: 2, Read: route.ReadRoundRobin})
	require.NoError(t, err)
	x.options.Router = router
	loads := []int64{3, 1, 2, 9}
	batch := func(lines ...string) *request.Batch {
		b := &request.Batch{}
		for _, line := range lines {
			var r request.Request
			_, _, err := x.limits.Decode([]byte(line+"\r\n"), &r.Request)
			require.NoError(t, err)
			b.Requests = append(b.Requests, r)
		}
		return b
	}
	lanes := func(c *LaneChooser, lines ...string) (lanes []int) {
		b := batch(lines...)
		c.Choose(b)
		for _, r := range b.Requests {
			lanes = append(lanes, int(r.Lane))
		}
		return lanes
	}
	k := x.key(0, 1, 2)
	chooser := NewLaneChooser(router, func(s int) int64 { return loads[s] }, unversioned)
	assert.Equal(t, []int{WriteLane(1), WriteLane(1), WriteLane(1), ReadLane(1), ReadLane(1), ReadLane(1)},
		lanes(chooser, "set "+k+" 0 0 0\r\n", "version", "gat 0 "+k, "gets "+k, "mg "+k+" c", "nonsense"))
	seen := map[int]bool{}
	for range 4 {
		seen[lanes(chooser, "get "+k)[0]] = true
	}
	assert.Equal(t, map[int]bool{ReadLane(1): true, ReadLane(2): true}, seen, "in turn")
	assert.Equal(t, 0, lanes(chooser, "version")[0]%2, "a read lane")

	busy, err := route.New(router.Servers(), route.Options{Read: route.ReadLeastBusy})
	require.NoError(t, err)
	least := NewLaneChooser(busy, func(s int) int64 { return loads[s] }, unversioned)
	for range loads {
		assert.Equal(t, []int{ReadLane(1)}, lanes(least, "mg "+k+" v"), "wherever the search begins")
	}
	// With three servers and two replicas of each key, the turns are those of the key's servers.
	two, err := route.New(router.Servers()[:3], route.Options{Replicas: 2, Read: route.ReadRoundRobin})
	require.NoError(t, err)
	even, counts := NewLaneChooser(two, nil, unversioned), map[int]int{}
	for range 60 {
		counts[lanes(even, "get a")[0]]++
	}
	assert.Equal(t, []int{30, 30}, slices.Collect(maps.Values(counts)),
		"the key's servers take turns, however many servers there are")
	zoned := slices.Clone(router.Servers())
	zoned[1].Zone, zoned[3].Zone = "here", "here"
	for replicas, want := range map[int][]int{0: {1, 3}, 2: {1}} { // of k
		near, err := route.New(zoned, route.Options{Replicas: replicas, Read: route.ReadNearest, Zone: "here"})
		require.NoError(t, err)
		c, seen := NewLaneChooser(near, nil, unversioned), map[int]int{}
		for range 12 {
			seen[lanes(c, "get "+k)[0]]++
		}
		for _, s := range want {
			assert.Equal(t, 12/len(want), seen[ReadLane(s)])
		}
	}
	primary, err := route.New(router.Servers(), route.Options{Replicas: 2, Read: route.ReadPrimary})
	require.NoError(t, err)
	assert.Equal(t, []int{ReadLane(1)}, lanes(NewLaneChooser(primary, nil, unversioned), "get "+k))
}
