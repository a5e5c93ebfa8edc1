package plan

import (
	"fmt"
	"hash/fnv"
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
			"mg a O7 v k": "EN O7 ka\r\n", "mg YQ== v k O7 b": "EN kYQ== b O7\r\n",
			"gat 0 a": "END\r\n", "mg a T0 v k": "EN ka\r\n", "mg a T0 q": "",
			"me a": "SERVER_ERROR", "mg a N0": "SERVER_ERROR", "mg a R30": "SERVER_ERROR", "touch a 0": "SERVER_ERROR",
		} {
			x := plan(t, setup{options: Options{GetErrorMiss: miss}})
			i := x.request(line)
			for n := 0; n < len(x.Calls); n++ {
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
	assert.Equal(t, value(a, "3")+value(b, "1")+"END\r\n", x.answer(i), "only what the server owed is asked for again")
	result, hits := x.Result(i)
	assert.Equal(t, []any{stats.ResultOK, 2}, []any{result, hits})
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
