package plan

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/large"
	"mcmw/internal/replica"
	"mcmw/internal/route"
	"mcmw/internal/stats"
	"mcmw/internal/wire"
)

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

// missed returns the keys of which the server of call n may hold an old value; "*" stands for all keys.
func missed(x *script, n int) (keys []string) {
	if x.Missed(int32(n), func(key []byte) { keys = append(keys, string(key)) }) {
		keys = append(keys, "*")
	}
	return keys
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
}

func TestAGatAndAnMgWithANewExpiryThatTooFewServersTakeFailAlike(t *testing.T) {
	const gone = "SERVER_ERROR s2: gone\r\n"
	for _, tc := range []struct {
		miss    bool
		line    string
		replies [2]string
		want    string
		hits    int
	}{
		{false, "gat 9 a", [2]string{"VALUE a 0 1\r\nx\r\nEND\r\n", "TOUCHED\r\n"}, "VALUE a 0 1\r\nx\r\n" + gone, 1},
		{true, "gat 9 a", [2]string{"VALUE a 0 1\r\nx\r\nEND\r\n", "TOUCHED\r\n"}, "END\r\n", 0},
		{false, "mg a v T9", [2]string{"VA 1\r\nx\r\n", "VA 1\r\nx\r\n"}, gone, 0},
		{true, "mg a v T9", [2]string{"VA 1\r\nx\r\n", "VA 1\r\nx\r\n"}, "EN\r\n", 0},
	} {
		x := plan(t, setup{options: Options{GetErrorMiss: tc.miss}})
		i := x.request(tc.line)
		require.Len(t, x.calls(), 3)
		x.reply(0, tc.replies[0])
		x.reply(1, tc.replies[1])
		x.lose(2)
		assert.Empty(t, x.next())
		assert.Equal(t, tc.want, x.answer(i), "%s, miss %t", tc.line, tc.miss)
		result, hits := x.Result(i)
		assert.Equal(t, stats.ResultServerError, result, "%s, miss %t", tc.line, tc.miss)
		assert.Equal(t, tc.hits, hits, "%s, miss %t", tc.line, tc.miss)
	}
}

// Of several keys only those are misses whose expiry is not known to be set.
func TestAGatMissesOnlyTheKeysWhoseNewExpiryTooFewServersTake(t *testing.T) {
	x := plan(t, setup{options: Options{GetErrorMiss: true}})
	a, b := x.key(0, 0, 1, 2), x.key(1, 0, 1, 2)
	i := x.request("gat 9 " + a + " " + b)
	require.Len(t, x.calls(), 5)
	valueA, valueB := "VALUE "+a+" 0 1\r\nx\r\n", "VALUE "+b+" 0 1\r\ny\r\n"
	x.reply(0, valueA+valueB+"END\r\n")
	for n := 1; n < 4; n++ {
		x.reply(n, "TOUCHED\r\n")
	}
	x.lose(4)
	assert.Equal(t, valueA+"END\r\n", x.answer(i))
}

// The other servers have been told to end the item's life: a read there would say that there was none.
func TestAGatThatExpiresItsItemAsksNoOtherServerWhenOneFails(t *testing.T) {
	for line, again := range map[string]bool{
		"gat 9 ": true, "gat 2592000 ": true, "gat 0 ": true, "gat -1 ": false, "gats -1 ": false,
		"gat 1 ": false, "gat 1700000000 ": false,
	} {
		x := plan(t, setup{})
		i := x.request(line + x.key(0, 0, 1, 2))
		require.Len(t, x.calls(), 3)
		x.reply(1, "TOUCHED\r\n")
		x.reply(2, "TOUCHED\r\n")
		x.lose(0)
		assert.Equal(t, again, len(x.next()) > 0, line)
		if !again {
			assert.Equal(t, "SERVER_ERROR s0: gone\r\n", x.answer(i), line)
		}
	}
}

// A touch that fails is no reason to read again.
func TestAGatIsAnsweredWhenAsManyServersAsAckDemandsHaveTheNewExpiry(t *testing.T) {
	for _, tc := range []struct {
		ack  replica.Ack
		lost string // the servers that don't answer
		done bool
	}{
		{replica.AckAll, "", true},
		{replica.AckAll, "s2", false},
		{replica.AckLive, "s2", true},
		{replica.AckLive, "s1 s2", true},
		{replica.AckQuorum, "s2", true},
		{replica.AckQuorum, "s1 s2", false},
		{replica.AckAny, "s1 s2", true},
	} {
		x := plan(t, setup{options: Options{Pools: []Pool{{Ack: tc.ack}}}})
		a := x.key(0, 0, 1, 2)
		i := x.request("gat 9 " + a + " " + a)
		require.Len(t, x.calls(), 5)
		value, end := "VALUE "+a+" 0 1\r\nx\r\n", "END\r\n"
		assert.False(t, x.Dispensable(0) || x.Dispensable(1), "the value has not been read: %v", tc)
		x.reply(0, value+value+end)
		for n, server := range []string{"s1", "s2", "s1", "s2"} {
			if !strings.Contains(tc.lost, server) {
				x.reply(1+n, "TOUCHED\r\n")
			}
		}
		for n, server := range []string{"s1", "s2", "s1", "s2"} {
			if strings.Contains(tc.lost, server) {
				assert.Equal(t, tc.done, x.Dispensable(int32(1+n)), "%v", tc)
				x.lose(1 + n)
			}
		}
		var refusal wire.Gather
		assert.Equal(t, tc.done && tc.lost != "", x.Withhold(i, 2, &refusal), "%v", tc)
		if refusal.Len() > 0 {
			assert.Equal(t, "SERVER_ERROR s2: gone\r\n", string(refusal.AppendFrom(nil, 0)))
		}
		if !tc.done {
			end = "SERVER_ERROR s2: gone\r\n"
		}
		assert.Equal(t, value+value+end, x.answer(i), "%v", tc)
	}
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

func TestAnotherServerDecidesWhetherALargeValueIsStoredWhileTheFirstOneIsDown(t *testing.T) {
	x := plan(t, setup{options: Options{
		Versions: NewVersions(0, 1), LargeVersion: large.NewVersion,
		Pools: []Pool{{
			Ack: replica.AckLive, Versions: true, Several: true, Agreed: true,
			Policy: Policy{Large: Large{Limit: 10, Item: large.ItemOverhead + 2}},
		}},
	}})
	k := x.key(0, 0, 1, 2)
	x.Servers[0] = Server{Replaced: true, Turn: 1}
	x.Servers[1].Decides, x.Servers[2].Decides = true, true
	i := x.request("add " + k + " 0 0 3\r\nabc")
	for n, c := range x.Calls { // two chunks on each
		if c.Server == 0 {
			x.lose(n)
		} else {
			x.reply(n, "HD\r\n")
		}
	}
	for range 2 { // the head on the server that decides, then on the other one; the first must not hold the key
		from := len(x.Calls)
		require.NotEmpty(t, x.next())
		for n := from; n < len(x.Calls); n++ {
			if x.Calls[n].Server == 0 {
				x.lose(n)
			} else {
				x.reply(n, "HD\r\n")
			}
		}
	}
	assert.EqualValues(t, -1, x.Undone(i))
	assert.Equal(t, "STORED\r\n", x.answer(i))
}

func TestAGatShowsAValueInChunksWhileAnotherOfItsKeysMigrates(t *testing.T) {
	pool := func(name, server string) route.Pool {
		return route.Pool{Name: name, Servers: []route.Server{{Name: server}}}
	}
	router, err := route.NewPools([]route.Pool{pool("large", "s0"), pool("old", "s1"), pool("new", "s2")},
		route.Routes{Default: "large", Prefixes: []route.Prefix{{Prefix: "m", Pool: "old"}}})
	require.NoError(t, err)
	router = router.Migrate([]route.Move{{From: 1, To: 2, Phase: route.MigrationCopy}})
	x := plan(t, setup{options: Options{Router: router, Pools: []Pool{
		{Policy: Policy{Large: Large{Limit: 10, Item: large.ItemOverhead + 2}}}, {}, {},
	}}})
	i := x.request("gat 0 k m")
	require.Equal(t, []string{"0: gat 0 k", "1: gat 0 m"}, x.calls())
	head := large.New(large.Version{}, []byte("abc"), 2)
	x.reply(0, fmt.Sprintf("VALUE k 0 %d\r\n%s\r\nEND\r\n", large.HeadSize, head.Append(nil)))
	x.reply(1, "VALUE m 0 1\r\nx\r\nEND\r\n")
	require.Equal(t, []string{"2: touch m 0"}, x.next())
	x.reply(2, "TOUCHED\r\n")
	require.Len(t, x.next(), 2)
	for n, chunk := range []string{"ab", "c"} {
		x.reply(3+n, fmt.Sprintf("VA %d k%s\r\n%s\r\n", len(chunk), head.AppendKey(nil, n), chunk))
	}
	assert.Equal(t, "VALUE k 0 3\r\nabc\r\nVALUE m 0 1\r\nx\r\nEND\r\n", x.answer(i))
}

func TestANewHolderGetsTheExpiryOfAKeyThatItsServersKnowWithoutAPrefix(t *testing.T) {
	placed := func(server string) *route.Router {
		r, err := route.New([]route.Server{{Name: server}}, route.Options{})
		require.NoError(t, err)
		return r
	}
	changed := route.Change(placed("old"), placed("new"), route.Copy) // whose servers are the new one and the old one
	router, err := route.Compose([]string{"a", "b"}, []*route.Router{changed, placed("other")},
		route.Routes{Default: "b", Prefixes: []route.Prefix{{Prefix: "p:", Pool: "a", Strip: true}}})
	require.NoError(t, err)
	for request, want := range map[string]string{"gat 0 p:k": "touch k 0", "gat 0 p:k x": "touch k 0"} {
		x := plan(t, setup{options: Options{Router: router, Pools: make([]Pool, 2)}})
		x.request(request)
		for n := range x.Calls {
			x.reply(n, "END\r\n")
		}
		x.calls()
		assert.Equal(t, []string{"0: " + want}, x.next(), request)
	}
	x := plan(t, setup{options: Options{Router: router, Pools: make([]Pool, 2)}})
	x.request(fmt.Sprintf("set p:k 0 0 %d\r\n%s", 2<<20, make([]byte, 2<<20)))
	require.Equal(t, []string{"1: delete k", "0: delete k"}, x.calls())
	x.reply(0, "DELETED\r\n")
	x.reply(1, "DELETED\r\n")
	assert.Equal(t, []string{"0: md k"}, x.next())
}
