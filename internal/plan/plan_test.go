package plan

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/protocol"
	"mcmw/internal/replica"
	"mcmw/internal/request"
	"mcmw/internal/route"
	"mcmw/internal/stats"
	"mcmw/internal/wire"
)

// script drives a planner with texts.
type script struct {
	*testing.T
	*Planner
	limits  protocol.Limits
	started int // number of calls that calls has returned
	settled map[int32]bool
	again   []int32 // requests that need a further step
}

// setup says what a test's planner works with.
type setup struct {
	servers, replicas int // by default 3, and as many
	options           Options
	read              route.ReadPolicy
	zones             []string // by server; reads with ReadNearest prefer "here"
}

func plan(t *testing.T, s setup) *script {
	t.Helper()
	if s.servers == 0 {
		s.servers = 3
	}
	var servers []route.Server
	o := s.options
	o.Home--
	o.MaxValue = 1 << 10
	if o.Pools == nil {
		o.Pools = []Pool{{Versions: o.Versions != nil, Several: o.Versions != nil}}
	}
	for i := range s.servers {
		o.Names = append(o.Names, fmt.Sprintf("s%d", i))
		server := route.Server{Name: o.Names[i], Addr: "-"}
		if s.zones != nil {
			server.Zone = s.zones[i]
		}
		servers = append(servers, server)
	}
	if o.Router == nil {
		router, err := route.New(servers, route.Options{Replicas: s.replicas, Read: s.read, Zone: "here"})
		require.NoError(t, err)
		o.Router = router
	}
	o.Stripe = func(key []byte) uint32 {
		h := fnv.New32a()
		_, _ = h.Write(key)
		return h.Sum32() % 65536
	}
	o.Locked = func(uint32) bool { return false }
	x := &script{T: t, Planner: New(o, -1), limits: protocol.Limits{}.WithDefaults(), settled: map[int32]bool{}}
	for i := range x.Servers {
		x.Servers[i].Readable = true
	}
	x.Part()
	return x
}

// key returns the n-th key whose first servers are these, in that order.
func (x *script) key(n int, servers ...int) string {
	for i := 0; ; i++ {
		key := fmt.Sprintf("k%d", i)
		if holders := x.options.Router.Replicas([]byte(key), nil); slices.Equal(holders[:len(servers)], servers) {
			if n--; n < 0 {
				return key
			}
		}
	}
}

// request plans the request in line, which has no final line end.
func (x *script) request(line string) int32 {
	x.Helper()
	r := &request.Request{}
	n, _, err := x.limits.Decode([]byte(line+"\r\n"), &r.Request)
	require.NoError(x, err)
	require.NotZero(x, n, line)
	i := x.Add(r)
	x.Plan(i)
	if len(x.CallsOf(i)) == 0 {
		x.settle(i)
	}
	return i
}

// calls returns what was sent to the servers since the last call of calls: "server: text", with blanks for line ends.
func (x *script) calls() (calls []string) {
	for ; x.started < len(x.Calls); x.started++ {
		c := &x.Calls[x.started]
		text := slices.Concat(c.Bytes[:]...)
		if c.Fence() {
			text = append(text, "mn\r\n"...)
		}
		calls = append(calls, fmt.Sprintf("%d: %s", c.Server,
			strings.TrimSuffix(strings.ReplaceAll(string(text), "\r\n", " "), " ")))
	}
	return calls
}

// reply feeds call n with its whole reply.
func (x *script) reply(n int, text string) {
	x.Helper()
	require.True(x, x.feed(n, text), "%q", text)
}

// feed is reply, but returns false if the reply does not fit.
func (x *script) feed(n int, text string) bool {
	x.Helper()
	whole := []byte(text)
	for at := 0; ; {
		var rep protocol.Reply
		size, _, err := protocol.DecodeReply(whole[at:], &rep)
		require.NoError(x, err)
		if size == 0 {
			return false
		}
		last, _, ok := x.Element(int32(n), &rep, whole[at:at+size], at, at+size)
		if !ok {
			return false
		}
		at += size
		if last {
			require.Len(x, whole, at)
			if !x.Calls[n].Failed() && x.Done(int32(n), rep.Kind, whole) {
				x.settle(x.Calls[n].Request)
			}
			return true
		}
	}
}

// lose ends call n without a reply.
func (x *script) lose(n int) {
	if x.NoAnswer(int32(n), fmt.Appendf(nil, "SERVER_ERROR s%d: gone\r\n", x.Calls[n].Server), true) {
		x.settle(x.Calls[n].Request)
	}
}

func (x *script) settle(i int32) {
	if x.End(i, true) {
		x.again = append(x.again, i)
		return
	}
	require.False(x, x.settled[i], "request %d has ended twice", i)
	x.settled[i] = true
}

// next plans the further steps of all requests that need one.
func (x *script) next() []string {
	again := x.again
	x.again = nil
	for _, i := range again {
		x.Next(i)
	}
	return x.calls()
}

// answer returns what the client of request i gets.
func (x *script) answer(i int32) string {
	x.Helper()
	require.True(x, x.settled[i], "request %d has not ended", i)
	var g wire.Gather
	require.Equal(x, -1, x.Answer(i, &g, func(dst []byte) []byte { return append(dst, "STAT own 1\r\nEND\r\n"...) }))
	return string(g.AppendFrom(nil, 0))
}

func TestAReadIsSentToOneServerAfterAnotherUntilOneAnswers(t *testing.T) {
	x := plan(t, setup{})
	i := x.request("get a")
	assert.Equal(t, []string{"0: get a"}, x.calls())
	x.lose(0)
	assert.Equal(t, []string{"2: get a"}, x.next())
	x.lose(1)
	assert.Equal(t, []string{"1: get a"}, x.next())
	x.reply(2, "VALUE a 0 1\r\nx\r\nEND\r\n")
	assert.Equal(t, "VALUE a 0 1\r\nx\r\nEND\r\n", x.answer(i))
	result, hits := x.Result(i)
	assert.Equal(t, stats.ResultOK, result)
	assert.Equal(t, 1, hits)
}

func TestAReadThatNoServerAnswersFailsOrIsAMiss(t *testing.T) {
	for _, miss := range []bool{false, true} {
		for line, want := range map[string]string{
			"get a": "END\r\n", "mg a v": "EN\r\n", "mg a v q": "",
			"me a": "SERVER_ERROR",
		} {
			x := plan(t, setup{options: Options{GetErrorMiss: miss}})
			i := x.request(line)
			for n := range 3 {
				x.lose(n)
				x.next()
			}
			if !miss {
				want = "SERVER_ERROR"
			}
			assert.True(t, strings.HasPrefix(x.answer(i), want), "%s: %q", line, x.answer(i))
			if want == "" {
				assert.Empty(t, x.answer(i))
			}
		}
	}
}

func TestAFailedReadIsNotRepeatedIfNoTimeIsLeft(t *testing.T) {
	x := plan(t, setup{})
	i := x.request("get a")
	require.True(t, x.NoAnswer(0, []byte("SERVER_ERROR s0: late\r\n"), false))
	assert.True(t, x.Requests[i].Failed())
	assert.False(t, x.End(i, false))
}

func TestWithOneReplicaAReadIsRepeatedOnlyIfTheConnectionWasLost(t *testing.T) {
	for _, lost := range []bool{true, false} {
		x := plan(t, setup{servers: 1})
		i := x.request("get a")
		require.True(t, x.NoAnswer(0, []byte("SERVER_ERROR s0: gone\r\n"), lost))
		assert.Equal(t, lost, x.End(i, true))
	}
}

func TestAReadThatShowsACasGoesToTheFirstServerThatMayBeRead(t *testing.T) {
	x := plan(t, setup{})
	k := x.key(0, 2, 1, 0)
	for _, line := range []string{"gets " + k, "mg " + k + " c", "me " + k, "gats 0 " + k} {
		x.request(line)
		assert.Equal(t, "2: "+line, x.calls()[0])
	}
	x.Servers[2].Readable = false
	x.request("gets " + k)
	assert.Equal(t, []string{"1: gets " + k}, x.calls())
	x.Servers[0].Readable, x.Servers[1].Readable = false, false
	x.request("gets " + k)
	assert.Equal(t, []string{"2: gets " + k}, x.calls(), "the worker refuses it")
}

func TestReadsAvoidSuspectsAndServersThatMissedWrites(t *testing.T) {
	x := plan(t, setup{})
	x.Servers[0].Suspect, x.Servers[1].Readable = true, false
	for range 4 {
		x.Part()
		x.request("get a")
		assert.Equal(t, []string{"2: get a"}, x.calls())
	}
	x.Servers[2].Readable = false
	x.Part()
	x.request("get a")
	assert.Equal(t, []string{"0: get a"}, x.calls(), "a suspect if there is no other")
	x.Servers[0].Readable = false
	x.Part()
	x.request("mg a v")
	assert.Len(t, x.calls(), 1, "any server; the worker refuses it")
}

func TestAPartReadsFromOneServerAndTheNextFromAnother(t *testing.T) {
	x := plan(t, setup{})
	var servers []string
	for range 3 {
		x.Part()
		x.request("get a")
		x.request("get b")
		calls := x.calls()
		assert.Equal(t, calls[0][:1], calls[1][:1])
		servers = append(servers, calls[0][:1])
	}
	assert.ElementsMatch(t, []string{"0", "1", "2"}, servers)
}

func TestReadsGoHomeOrToTheLeastBusy(t *testing.T) {
	x := plan(t, setup{options: Options{Home: 2}}) // server 1
	for range 3 {
		x.Part()
		x.request("get a")
		assert.Equal(t, []string{"1: get a"}, x.calls())
	}
	x = plan(t, setup{read: route.ReadLeastBusy})
	x.Servers[0].Load, x.Servers[1].Load, x.Servers[2].Load = 3, 2, 1
	for range 3 {
		x.Part()
		x.request("get a")
		assert.Equal(t, []string{"2: get a"}, x.calls())
	}
	x = plan(t, setup{servers: 4, replicas: 2, read: route.ReadLeastBusy})
	x.Servers[1].Load = 1
	x.request("mg " + x.key(0, 1, 3) + " v")
	assert.Equal(t, "3", x.calls()[0][:1])
}

func TestNearestReadsStayInTheirZoneWhileItHasAServerThatMayBeRead(t *testing.T) {
	x := plan(t, setup{servers: 4, read: route.ReadNearest, zones: []string{"there", "here", "", "here"}})
	asked := func(line string) (servers []string) {
		for range 12 {
			x.Part()
			x.request(line)
			for _, call := range x.calls() {
				servers = append(servers, call[:1])
			}
		}
		slices.Sort(servers)
		return servers
	}
	evenly := func(servers ...string) []string {
		return slices.Sorted(slices.Values(slices.Repeat(servers, 12/len(servers))))
	}
	assert.Equal(t, evenly("1", "3"), asked("get a"))
	x.Servers[1].Suspect = true
	assert.Equal(t, evenly("3"), asked("mg a v"))
	x.Servers[3].Readable = false
	assert.Equal(t, evenly("0", "2"), asked("get a"), "servers of other zones rather than a suspect")
	x.Servers[0].Readable, x.Servers[2].Suspect = false, true
	assert.Equal(t, evenly("1"), asked("get a"), "the nearest of the suspects")

	x = plan(t, setup{
		servers: 4, read: route.ReadNearest, zones: []string{"there", "here", "", "here"},
		options: Options{Sharded: true},
	})
	assert.Equal(t, slices.Sorted(slices.Values(slices.Repeat([]string{"1", "3"}, 12))), asked("get a b c d"),
		"split among the nearest")

	x = plan(t, setup{servers: 4, replicas: 2, read: route.ReadNearest, zones: []string{"there", "here", "", "here"}})
	assert.Equal(t, evenly("1"), asked("get "+x.key(0, 0, 1)), "the nearest is not the key's first server")
	assert.Equal(t, evenly("0", "2"), asked("get "+x.key(0, 2, 0)), "no near server holds it")
	i := x.request("get " + x.key(0, 0, 1))
	x.lose(len(x.Calls) - 1)
	require.Equal(t, []int32{i}, x.again)
	assert.Equal(t, "1", x.calls()[0][:1])
	x.again = nil
	x.Next(i)
	assert.Equal(t, "0", x.calls()[0][:1], "other servers are asked for what a near one failed to answer")
	assert.Equal(t, evenly("2"), asked("gets "+x.key(0, 2, 3)), "only the first knows the cas")

	x = plan(t, setup{servers: 2, read: route.ReadNearest})
	assert.Equal(t, evenly("0", "1"), asked("get a"), "no server has a zone")
	x = plan(t, setup{servers: 2, zones: []string{"here", "there"}})
	assert.Equal(t, evenly("0", "1"), asked("get a"), "ReadNearest is not set")
}

func TestAShardedMultiGetIsSplitEvenlyAndAnsweredInOrder(t *testing.T) {
	x := plan(t, setup{options: Options{Sharded: true}})
	i := x.request("get a b c d")
	require.Equal(t, []string{"0: get a b", "1: get c", "2: get d"}, x.calls())
	x.reply(2, "VALUE d 0 1\r\n4\r\nEND\r\n")
	x.reply(1, "END\r\n")
	x.reply(0, "VALUE b 0 1\r\n2\r\nEND\r\n")
	assert.Equal(t, "VALUE b 0 1\r\n2\r\nVALUE d 0 1\r\n4\r\nEND\r\n", x.answer(i))
	result, hits := x.Result(i)
	assert.Equal(t, stats.ResultPartial, result)
	assert.Equal(t, 2, hits)

	for s := range x.Servers {
		x.Servers[s].Readable = false
	}
	x.Part()
	x.request("get a b")
	assert.Len(t, x.calls(), 2, "any servers; the worker refuses it")
}

func TestKeysOfSeveralServersAreMergedInTheOrderOfTheRequest(t *testing.T) {
	x := plan(t, setup{servers: 2, replicas: 1})
	a, b, c, d := x.key(0, 0), x.key(0, 1), x.key(1, 0), x.key(1, 1)
	i := x.request("get " + strings.Join([]string{a, b, c, d}, " "))
	require.Equal(t, []string{"0: get " + a + " " + c, "1: get " + b + " " + d}, x.calls())
	value := func(key string) string { return "VALUE " + key + " 0 1\r\nx\r\n" }
	x.reply(1, value(d)+"END\r\n")
	x.reply(0, value(a)+value(c)+"END\r\n")
	assert.Equal(t, value(a)+value(c)+value(d)+"END\r\n", x.answer(i))

	i = x.request("gets " + a + " " + c)
	assert.Equal(t, []string{"0: gets " + a + " " + c}, x.calls(), "as the client sent it, if one server has all keys")
	x.reply(2, "SERVER_ERROR busy\r\n")
	assert.Equal(t, "SERVER_ERROR busy\r\n", x.answer(i))
	result, _ := x.Result(i)
	assert.Equal(t, stats.ResultServerError, result)

	i = x.request("get " + a + " " + b)
	x.reply(3, value(a)+"END\r\n")
	x.lose(4)
	x.next()
	x.reply(5, value(a)+"END\r\n")
	x.lose(6)
	assert.Equal(t, value(a)+"SERVER_ERROR s1: gone\r\n", x.answer(i), "never silently a miss")
}

// A server that stalls may reply after others were asked in its place.
func TestALateReplyToAGetThatOthersHaveAnsweredIsDropped(t *testing.T) {
	x := plan(t, setup{replicas: 2, read: route.ReadPrimary})
	a, b := x.key(0, 0, 1), x.key(0, 2, 1)
	i := x.request("get " + a + " " + b)
	require.Equal(t, []string{"0: get " + a, "2: get " + b}, x.calls())
	value := func(key, data string) string { return "VALUE " + key + " 0 1\r\n" + data + "\r\n" }
	x.reply(1, value(b, "1")+"END\r\n")
	x.lose(0)
	x.next()
	require.True(t, x.feed(0, value(a, "2")+"END\r\n"))
	for n := 2; n < len(x.Calls); n++ {
		reply := ""
		for key := range each(x.Calls[n].keys) {
			reply += value(string(key), "3")
		}
		x.reply(n, reply+"END\r\n")
	}
	assert.Equal(t, value(a, "3")+value(b, "3")+"END\r\n", x.answer(i))
}

// A worker continues with a server that stalls in the middle of its reply after others have answered.
func TestValuesAreMergedAlthoughRepliesArriveInInterleavedParts(t *testing.T) {
	x := plan(t, setup{servers: 2, replicas: 1})
	a, b, c, d := x.key(0, 0), x.key(0, 1), x.key(1, 0), x.key(1, 1)
	i := x.request("get " + strings.Join([]string{a, b, c, d}, " "))
	value := func(key string) string { return "VALUE " + key + " 0 1\r\n" + key[1:2] + "\r\n" }
	replies := []string{value(a) + value(c) + "END\r\n", value(b) + value(d) + "END\r\n"}
	at := []int{0, 0}
	for k := range 6 {
		n := k % 2
		var rep protocol.Reply
		rest := []byte(replies[n][at[n]:])
		size, _, err := protocol.DecodeReply(rest, &rep)
		require.NoError(t, err)
		last, _, ok := x.Element(int32(n), &rep, rest[:size], at[n], at[n]+size)
		require.True(t, ok)
		at[n] += size
		if last && x.Done(int32(n), rep.Kind, []byte(replies[n])) {
			x.settle(i)
		}
	}
	assert.Equal(t, value(a)+value(b)+value(c)+value(d)+"END\r\n", x.answer(i))
}

func TestTheElementsOfAReplyMustFitItsRequest(t *testing.T) {
	x := plan(t, setup{servers: 1})
	for line, wrong := range map[string][]string{
		"get a b": {
			"VALUE c 0 1\r\nx\r\nEND\r\n", "STORED\r\n",
			"VALUE b 0 0\r\n\r\nVALUE a 0 0\r\n\r\nEND\r\n",
		},
		"set a 0 0 0\r\n": {"END\r\n", "DELETED\r\n"},
		"mg a v k":        {"HD\r\n", "VA 1 kb\r\nx\r\n", "STORED\r\n"},
		"stats items":     {"STAT a 1\r\nRESET\r\n", "STORED\r\n"},
		"version":         {"OK\r\n"},
	} {
		for _, reply := range wrong {
			x.request(line)
			assert.False(t, x.feed(len(x.Calls)-1, reply), "%q: %q", line, reply)
		}
	}
	i := x.request("stats items")
	rep := protocol.Reply{Kind: protocol.ReplyStat}
	_, _, ok := x.Element(int32(len(x.Calls)-1), &rep, nil, 0, maxList+1)
	assert.False(t, ok, "a list that is too long: %d", i)
}

func TestAWriteGoesToAllReplicasAndIsRepairedWhereTheyDiffer(t *testing.T) {
	x := plan(t, setup{})
	k := x.key(0, 0, 1, 2)
	i := x.request("add " + k + " 0 0 1\r\nx")
	assert.Equal(t, []string{"0: add " + k + " 0 0 1 x", "1: add " + k + " 0 0 1 x", "2: add " + k + " 0 0 1 x"},
		x.calls())
	assert.Equal(t, FollowsRepair, x.Follows(0))
	x.reply(0, "STORED\r\n")
	x.reply(2, "NOT_STORED\r\n")
	x.reply(1, "NOT_STORED\r\n")
	assert.Equal(t, []int32{0}, x.Repairs(i))
	replies, answered := x.Disagreement(i)
	assert.Equal(t, []string{"s0: STORED", "s1: NOT_STORED", "s2: NOT_STORED"}, replies)
	assert.Equal(t, "NOT_STORED", answered)
	assert.Equal(t, []string{"0: delete " + k}, x.next())
	assert.Equal(t, FollowsNothing, x.Follows(3))
	x.reply(3, "DELETED\r\n")
	assert.Equal(t, "NOT_STORED\r\n", x.answer(i))
	result, _ := x.Result(i)
	assert.Equal(t, stats.ResultNotStored, result)
}

func TestAWriteWithLaterWritesOfItsKeyUnderWayIsRepairedEverywhere(t *testing.T) {
	x := plan(t, setup{})
	i := x.request("set a 0 0 1\r\nx")
	x.reply(0, "STORED\r\n")
	x.reply(1, "STORED\r\n")
	x.reply(2, "NOT_STORED\r\n")
	require.Len(t, x.Repairs(i), 2)
	x.RepairAll(i)
	x.calls()
	assert.Len(t, x.next(), 3)
}

func TestAReplicaThatDidNotAnswerIsNotRepairedButCountsAsHavingMissedTheKey(t *testing.T) {
	x := plan(t, setup{options: Options{Pools: []Pool{{Ack: replica.AckQuorum}}}})
	i := x.request("set a 0 0 1\r\nx")
	x.reply(0, "STORED\r\n")
	x.lose(1)
	x.reply(2, "STORED\r\n")
	assert.Equal(t, "STORED\r\n", x.answer(i))
	assert.Empty(t, x.Repairs(i))
	assert.True(t, x.Writes(1))
	assert.Equal(t, []string{"a"}, missed(x, 1))
}

// missed returns the keys of which the server of call n may hold an old value; "*" stands for all keys.
func missed(x *script, n int) (keys []string) {
	if x.Missed(int32(n), func(key []byte) { keys = append(keys, string(key)) }) {
		keys = append(keys, "*")
	}
	return keys
}

func TestAServerMissesTheKeysThatItsCallWouldHaveChanged(t *testing.T) {
	x := plan(t, setup{servers: 1})
	for line, want := range map[string][]string{
		"get a b": nil, "mg a v": nil, "gat 0 a b": {"a", "b"}, "set a 0 0 1\r\nx": {"a"}, "mg a T0": {"a"},
		"md aGkgaG8= b": {"hi ho"}, "flush_all": {"*"},
		"version": nil,
	} {
		x.request(line)
		assert.Equal(t, want, missed(x, len(x.Calls)-1), line)
	}
}

func TestACasIsComparedOnTheFirstServerAndCopiedToTheOthers(t *testing.T) {
	for line, copied := range map[string]string{
		"cas %s 0 0 1 7\r\nx":    "set %s 0 0 1 x",
		"ms %s 1 C7 T5 q\r\nx":   "ms %s 1 T5 x",
		"ms %s 1 C7 I\r\nx":      "delete %s",
		"md %s C7":               "md %s",
		"ma %s C7 N0 v":          "ma %s N0 v",
		"ms YWI= 1 C7 I b\r\nxy": "",
	} {
		x := plan(t, setup{})
		k := x.key(0, 1, 0, 2)
		if copied == "" {
			continue
		}
		line, copied = fmt.Sprintf(line, k), fmt.Sprintf(copied, k)
		i := x.request(line)
		require.Len(t, x.calls(), 1)
		assert.True(t, x.Calls[0].Reads())
		assert.EqualValues(t, 1, x.Calls[0].Server)
		assert.Equal(t, FollowsCopies, x.Follows(0))
		done := map[byte]string{'c': "STORED\r\n", 'm': "HD\r\n"}[line[0]]
		if line[1] == 'a' && line[0] == 'm' {
			done = "VA 1\r\n5\r\n"
		}
		x.reply(0, done)
		assert.Equal(t, []string{"0: " + copied, "2: " + copied}, x.next(), line)
		if copied[:3] == "del" {
			done = "NOT_FOUND\r\n"
		} else if copied[0] == 's' {
			done = "STORED\r\n"
		}
		x.reply(1, done)
		x.reply(2, done)
		if strings.HasSuffix(line, " q\r\nx") {
			assert.Empty(t, x.answer(i))
		} else {
			assert.NotEmpty(t, x.answer(i))
		}
		assert.Empty(t, x.Repairs(i))
	}
}

func TestARefusedOrLostCasIsNotCopied(t *testing.T) {
	x := plan(t, setup{})
	i := x.request("cas a 0 0 1 7\r\nx")
	x.reply(0, "EXISTS\r\n")
	assert.Equal(t, "EXISTS\r\n", x.answer(i))
	i = x.request("cas a 0 0 1 7\r\nx")
	x.lose(1)
	assert.Contains(t, x.answer(i), "gone")
	assert.Empty(t, x.Repairs(i))
}

func TestADeletionIsAnsweredByAReplicaThatHadTheKey(t *testing.T) {
	for line, replies := range map[string][3]string{
		"delete a": {"NOT_FOUND\r\n", "DELETED\r\n", "NOT_FOUND\r\n"}, "md a": {"NF\r\n", "HD\r\n", "NF\r\n"},
	} {
		x := plan(t, setup{})
		i := x.request(line)
		for n, reply := range replies {
			x.reply(n, reply)
		}
		assert.Equal(t, replies[1], x.answer(i))
		i = x.request(line)
		for n := range replies {
			x.reply(3+n, replies[0])
		}
		assert.Equal(t, replies[0], x.answer(i))
	}
}

func TestQuietMetaCommandsAreFollowedByAnMnOrSentWithoutTheQuietFlag(t *testing.T) {
	x := plan(t, setup{})
	i := x.request("mg a v q")
	assert.Equal(t, []string{"0: mg a v q mn"}, x.calls())
	x.reply(0, "MN\r\n")
	assert.Empty(t, x.answer(i))
	i = x.request("mg a v q")
	x.calls()
	x.reply(1, "VA 1\r\nx\r\nMN\r\n")
	assert.Equal(t, "VA 1\r\nx\r\n", x.answer(i))

	i = x.request("ms a 1 q\r\nx")
	assert.Equal(t, ": ms a 1 x", x.calls()[0][1:])
	for n := range 3 {
		x.reply(2+n, "HD\r\n")
	}
	assert.Empty(t, x.answer(i))
	i = x.request("ms a 1 MA q\r\nx")
	for n := range 3 {
		x.reply(5+n, "NS\r\n")
	}
	assert.Equal(t, "NS\r\n", x.answer(i))
	result, _ := x.Result(i)
	assert.Equal(t, stats.ResultNotStored, result)
}

func TestAllReplicasMustAgreeOnTheWinnerOfAnItem(t *testing.T) {
	x := plan(t, setup{options: Options{Pools: []Pool{{Ack: replica.AckQuorum}}}})
	i := x.request("mg a N30 v")
	x.reply(0, "VA 0 W\r\n\r\n")
	x.reply(1, "VA 0 W\r\n\r\n")
	x.reply(2, "VA 0 Z\r\n\r\n")
	assert.Equal(t, []int32{x.Calls[2].Server}, x.Repairs(i))
	x.next()
	x.reply(3, "DELETED\r\n")
	assert.Equal(t, "VA 0 W\r\n\r\n", x.answer(i))
}

func TestAGatReadsTheFirstServerAndTouchesTheOtherCopies(t *testing.T) {
	x := plan(t, setup{})
	a, b := x.key(0, 0, 1, 2), x.key(0, 2, 1, 0)
	i := x.request("gat 9 " + a + " " + b)
	assert.Equal(t, []string{
		"0: gat 9 " + a, "2: gat 9 " + b,
		"1: touch " + a + " 9", "2: touch " + a + " 9", "1: touch " + b + " 9", "0: touch " + b + " 9",
	}, x.calls())
	for n := 2; n < 6; n++ {
		x.reply(n, "NOT_FOUND\r\n")
	}
	x.reply(0, "VALUE "+a+" 0 1\r\nx\r\nEND\r\n")
	x.reply(1, "END\r\n")
	assert.Equal(t, "VALUE "+a+" 0 1\r\nx\r\nEND\r\n", x.answer(i))
	assert.False(t, x.Movable(0))
	assert.Equal(t, []string{a}, missed(x, 2))

	// The touch of a copy fails, which is no reason to read again.
	i = x.request("gat 9 " + a)
	x.reply(6, "VALUE "+a+" 0 1\r\nx\r\nEND\r\n")
	x.lose(7)
	x.reply(8, "TOUCHED\r\n")
	assert.Equal(t, "VALUE "+a+" 0 1\r\nx\r\nSERVER_ERROR s1: gone\r\n", x.answer(i))
}

func TestALongGatIsSplitIntoLinesThatMemcachedTakes(t *testing.T) {
	x := plan(t, setup{servers: 1})
	x.limits.MaxLine = 1 << 20
	keys := strings.Repeat("a"+strings.Repeat("b", 199)+" ", 15)
	x.request("gat 0 " + strings.TrimSpace(keys))
	calls := x.calls()
	assert.Len(t, calls, 2)
	for _, c := range calls {
		assert.LessOrEqual(t, len(c), maxTouchLine+len("0: gat 0 "))
	}
}

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

func TestAFixedAnswerIsGivenWhateverServersReply(t *testing.T) {
	x := plan(t, setup{})
	i := x.request("get a")
	x.Requests[i].Fail("SERVER_ERROR out of memory\r\n")
	x.lose(0)
	assert.Equal(t, "SERVER_ERROR out of memory\r\n", x.answer(i))
	assert.True(t, x.Requests[i].Fixed())
	result, _ := x.Result(i)
	assert.Equal(t, stats.ResultServerError, result)
	x.Requests[i].Fail("EN\r\n")
	result, _ = x.Result(i)
	assert.Equal(t, stats.ResultMiss, result)
	x.Requests[i].Settled, x.Requests[i].Request.Result = true, stats.ResultNotStored
	result, _ = x.Result(i)
	assert.Equal(t, stats.ResultNotStored, result)
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
		"get a|set a 0 0 0\r\n": false,
		"get a|flush_all":       false, "flush_all|get a": true, "get a b|touch b 0": false,
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

func TestAReplyToAnAbandonedCallIsIgnored(t *testing.T) {
	x := plan(t, setup{})
	i := x.request("get a")
	x.lose(0)
	x.next()
	x.reply(1, "END\r\n")
	assert.True(t, x.feed(0, "VALUE a 0 1\r\nx\r\nEND\r\n"))
	assert.Equal(t, "END\r\n", x.answer(i))
	result, _ := x.Result(i)
	assert.Equal(t, stats.ResultMiss, result)
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

func TestTheResultOfARequestDependsOnItsAnswer(t *testing.T) {
	for line, ends := range map[string]map[string]stats.Result{
		"get a": {
			"END\r\n": stats.ResultMiss, "VALUE a 0 0\r\n\r\nEND\r\n": stats.ResultOK,
			"ERROR\r\n": stats.ResultClientError,
		},
		"mg a v": {
			"EN\r\n": stats.ResultMiss, "VA 0\r\n\r\n": stats.ResultOK,
			"SERVER_ERROR x\r\n": stats.ResultServerError,
		},
		"ms a 0\r\n": {"HD\r\n": stats.ResultOK, "NS\r\n": stats.ResultNotStored},
		"set a 0 0 0\r\n": {
			"STORED\r\n": stats.ResultOK, "NOT_STORED\r\n": stats.ResultNotStored,
			"CLIENT_ERROR x\r\n": stats.ResultClientError,
		},
		"incr a 1": {"5\r\n": stats.ResultOK, "NOT_FOUND\r\n": stats.ResultNotStored},
	} {
		for reply, want := range ends {
			x := plan(t, setup{servers: 1})
			i := x.request(line)
			x.reply(0, reply)
			result, _ := x.Result(i)
			assert.Equal(t, want, result, "%s: %q", line, reply)
			assert.Equal(t, reply, x.answer(i))
		}
	}
	x := plan(t, setup{})
	result, _ := x.Result(x.request("nonsense"))
	assert.Equal(t, stats.ResultClientError, result)
	i := x.request("get a")
	x.Requests[i].Fail("quiet")
	result, _ = x.Result(i)
	assert.Equal(t, stats.ResultOK, result)
}

func TestADeletionThatMostReplicasFailIsAnErrorWithoutRepair(t *testing.T) {
	x := plan(t, setup{options: Options{Pools: []Pool{{Ack: replica.AckQuorum}}}})
	i := x.request("delete a")
	x.lose(0)
	x.lose(1)
	x.reply(2, "DELETED\r\n")
	assert.Contains(t, x.answer(i), "gone")
	assert.Empty(t, x.Repairs(i))
}
