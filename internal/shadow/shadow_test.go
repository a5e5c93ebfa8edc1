package shadow

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/protocol"
	"mcmw/internal/request"
	"mcmw/internal/stats"
	"mcmw/internal/wire"
)

func TestAShareHasItsPartOfKeysOfAnyForm(t *testing.T) {
	for _, share := range []float64{0.01, 0.1, 0.5, 1} {
		for _, form := range []string{"k%d", "user:%d:name", "%08x"} {
			const n = 20_000
			in := 0
			for i := range n {
				if In(fmt.Appendf(nil, form, i), share) {
					in++
				}
			}
			require.InDelta(t, share*n, float64(in), 5*math.Sqrt(share*n)+1e-9, "%v of %s", share, form)
		}
	}
	for i := range 1000 {
		key := fmt.Appendf(nil, "k%d", i)
		require.True(t, !In(key, 0.1) || In(key, 0.2), "a larger share has the keys of a smaller one")
		require.False(t, In(key, 0))
	}
}

func TestAKeyIsInDoubtUntilAWriteThatBeganLater(t *testing.T) {
	const ms = timeUnit
	var d doubts
	a, b := uint64(1<<63), uint64(1<<63+1)
	require.False(t, d.has(a))
	d.add(a, 5*ms)
	require.True(t, d.has(a))
	require.False(t, d.has(b))
	d.clear(b, 9*ms)
	d.clear(a, 5*ms)
	require.True(t, d.has(a), "the write did not begin later")
	d.add(a, 8*ms)
	d.add(a, 6*ms)
	d.clear(a, 7*ms)
	require.True(t, d.has(a), "another write made it doubtful later")
	d.clear(a, 9*ms)
	require.False(t, d.has(a))

	same := a ^ 1<<60
	d.add(a, ms)
	d.add(same, ms)
	other := a ^ 1<<61
	for _, key := range []uint64{a, same, other} {
		d.clear(key, 9*ms)
		require.True(t, d.has(key), "keys that share a slot cannot be told apart")
	}
	require.False(t, d.has(b))
	d.flush.Store(5 * ms)
	d.flushed(4 * ms)
	require.True(t, d.has(b))
	d.flushed(6 * ms)
	require.False(t, d.has(b))
}

// bench is a copier of one worker with a feed for all keys that begin with s.
type bench struct {
	*Copier
	feed   *Feed
	counts *stats.Shadow
	now    int64
}

func newBench(o Options) *bench {
	b := &bench{counts: &stats.Shadow{}}
	b.feed = NewFeed(o, b.counts)
	b.Copier = NewCopier(func(_ *protocol.Request, key []byte) int {
		if strings.HasPrefix(string(key), "s") {
			return 1
		}
		return 0
	}, [][]request.Recipient{nil, {b.feed.Outbox()}})
	b.Out = new(wire.Gather)
	return b
}

// serve copies a request that is answered with result and pieces. It returns what the client gets.
func (b *bench) serve(t *testing.T, text string, result stats.Result, pieces ...string) string {
	t.Helper()
	l := protocol.Limits{}.WithDefaults()
	var r protocol.Request
	n, _, err := l.Decode([]byte(text), &r)
	require.NoError(t, err)
	require.Equal(t, len(text), n)
	b.now += 10 * timeUnit
	o := request.Order{Dequeued: b.now - timeUnit, Received: b.now}
	key := r.Key(nil)
	b.Out.Reset()
	if b.Begin(&r, key) {
		for _, p := range pieces {
			b.Add([]byte(p))
		}
		b.Read(result, -1, o)
	} else {
		for _, p := range pieces {
			b.Out.AddString(p)
		}
		b.Write(&r, key, result, o)
	}
	b.HandOver()
	return string(b.Out.AppendFrom(nil, 0))
}

// taken takes the waiting copies, and returns them with the texts of their requests.
func (b *bench) taken() (texts []string, copies []copied) {
	for {
		select {
		case p := <-b.feed.parcels:
			start := 0
			for _, c := range p.copies {
				texts = append(texts, string(p.text[start:c.end]))
				start = c.end
			}
			copies = append(copies, p.copies...)
			b.feed.bytes.Add(-p.taken)
		default:
			return texts, copies
		}
	}
}

func TestAWriteIsCopiedAsItsEffect(t *testing.T) {
	const ok, refused, failed = stats.ResultOK, stats.ResultNotStored, stats.ResultServerError
	for _, c := range []struct {
		request string
		result  stats.Result
		copy    string // "": none
		plain   bool
		doubt   bool
	}{
		{"set s 1 2 3\r\nabc\r\n", ok, "set s 1 2 3\r\nabc\r\n", true, false},
		{"set s 1 2 3 noreply\r\nabc\r\n", ok, "set s 1 2 3\r\nabc\r\n", true, false},
		{"set s 1 2 3\r\nabc\r\n", failed, "", false, true},
		{"add s 1 2 3\r\nabc\r\n", ok, "set s 1 2 3\r\nabc\r\n", true, false},
		{"add s 1 2 3\r\nabc\r\n", refused, "", false, false},
		{"replace s 1 2 3\r\nabc\r\n", ok, "set s 1 2 3\r\nabc\r\n", true, false},
		{"cas s 1 2 3 77\r\nabc\r\n", ok, "set s 1 2 3\r\nabc\r\n", true, false},
		{"cas s 1 2 3 77\r\nabc\r\n", refused, "", false, false},
		{"append s 0 0 3\r\nabc\r\n", ok, "append s 0 0 3\r\nabc\r\n", false, false},
		{"incr s 5\r\n", ok, "incr s 5\r\n", false, false},
		{"incr s 5\r\n", refused, "", false, false},
		{"incr s 5\r\n", stats.ResultClientError, "", false, false},
		{"touch s 9\r\n", ok, "touch s 9\r\n", false, false},
		{"delete s\r\n", ok, "delete s\r\n", true, false},
		{"delete s\r\n", refused, "delete s\r\n", true, false},
		{"ms s 3 T9 ME C7 E8 q O1 k\r\nabc\r\n", ok, "ms s 3 T9\r\nabc\r\n", true, false},
		{"ms s 3 MA\r\nabc\r\n", ok, "ms s 3 MA\r\nabc\r\n", false, false},
		{"ms c3h5 3 b\r\nabc\r\n", ok, "ms c3h5 3 b\r\nabc\r\n", true, false},
		{"ms s 3 I C7\r\nabc\r\n", ok, "ms s 3 I\r\nabc\r\n", false, true},
		{"md s q\r\n", ok, "md s\r\n", true, false},
		{"md s I T3\r\n", ok, "md s I T3\r\n", false, true},
		{"ma s N0 J5 D2\r\n", ok, "ma s N0 J5 D2\r\n", false, false},
		{"mg s T9 v\r\n", ok, "mg s T9 v\r\n", false, false},
		{"mg s N9 v\r\n", ok, "mg s N9 v\r\n", false, true},
		{"flush_all\r\n", ok, "flush_all\r\n", false, false},
		{"flush_all 5 noreply\r\n", ok, "flush_all 5\r\n", false, false},
		{"set k 1 2 3\r\nabc\r\n", ok, "", false, false},
		{"get s\r\n", stats.ResultServerError, "", false, false},
		{"version\r\n", ok, "", false, false},
		{"stats items\r\n", ok, "", false, false},
	} {
		b := newBench(Options{Share: 1, All: true, Compare: true})
		b.serve(t, c.request, c.result)
		texts, copies := b.taken()
		require.Equal(t, c.copy, strings.Join(texts, ""), c.request)
		if len(copies) > 0 {
			require.Equal(t, c.plain, copies[0].plain, c.request)
			require.True(t, copies[0].write, c.request)
		}
		require.Equal(t, c.doubt, b.feed.doubts.has(hash([]byte("s"))) || b.feed.doubts.has(hash([]byte("sxy"))),
			c.request)

		b = newBench(Options{Share: 1, Compare: true})
		b.serve(t, c.request, c.result)
		texts, _ = b.taken()
		require.Empty(t, texts, "only reads are copied: %s", c.request)
	}
	b := newBench(Options{Share: 1, All: true})
	b.serve(t, "set s 0 0 "+fmt.Sprint(2<<20)+"\r\n", stats.ResultServerError)
	texts, _ := b.taken()
	require.Equal(t, []string{"delete s\r\n"}, texts, "a value that is too large removes the old one")
}

func TestAReadIsCopiedKeyByKeyWithTheClientsAnswer(t *testing.T) {
	held := func(value string, flags uint32) answer {
		return answerOf(fmt.Appendf(nil, "VALUE s %d %d\r\n%s\r\n", flags, len(value), value), true)
	}
	present := answer{held: true}
	valued := held("abc", 0)
	valued.hasFlags = false
	for _, c := range []struct {
		request string
		answer  []string
		copies  []string
		told    []answer
	}{
		{"get s\r\n", []string{"VALUE s 7 3\r\nabc\r\nEND\r\n"}, []string{"get s\r\n"}, []answer{held("abc", 7)}},
		{"gets s\r\n", []string{"VALUE s 7 3 99\r\nabc\r\nEND\r\n"}, []string{"get s\r\n"}, []answer{held("abc", 7)}},
		{"get s\r\n", []string{"END\r\n"}, []string{"get s\r\n"}, []answer{{}}},
		{"get k\r\n", []string{"END\r\n"}, nil, nil},
		{
			"get s1 k1 s2 s3 k2 s1\r\n",
			[]string{
				"VALUE s1 0 1\r\na\r\n", "VALUE k1 0 1\r\nb\r\nVALUE s3 0 1\r\nc\r\n",
				"VALUE k2 0 1\r\nd\r\nVALUE s1 0 1\r\na\r\nEND\r\n",
			},
			[]string{"get s1\r\n", "get s2\r\n", "get s3\r\n", "get s1\r\n"},
			[]answer{held("a", 0), {}, held("c", 0), held("a", 0)},
		},
		{"mg s v f t c\r\n", []string{"VA 3 f7 t-1 c5\r\nabc\r\n"}, []string{"get s\r\n"}, []answer{held("abc", 7)}},
		{"mg s v\r\n", []string{"VA 3\r\nabc\r\n"}, []string{"get s\r\n"}, []answer{valued}},
		{"mg s k\r\n", []string{"HD ks\r\n"}, []string{"get s\r\n"}, []answer{present}},
		{"mg s v q\r\n", nil, []string{"get s\r\n"}, []answer{{}}},
		{"mg s v\r\n", []string{"EN\r\n"}, []string{"get s\r\n"}, []answer{{}}},
		{
			"mg c3h5 v f b\r\n",
			[]string{"VA 3 f7\r\nabc\r\n"},
			[]string{"mg c3h5 v f O3580754356 b\r\n"},
			[]answer{held("abc", 7)},
		},
	} {
		b := newBench(Options{Share: 1, Compare: true})
		require.Equal(t, strings.Join(c.answer, ""), b.serve(t, c.request, stats.ResultOK, c.answer...))
		texts, copies := b.taken()
		require.Equal(t, c.copies, texts, c.request)
		for i := range copies {
			require.Equal(t, c.told[i], copies[i].told, c.request)
			require.True(t, copies[i].compare, c.request)
		}
	}
	b := newBench(Options{Share: 1, Compare: true})
	b.serve(t, "gat 10 s s2\r\n", stats.ResultOK, "VALUE s 0 1\r\na\r\nEND\r\n")
	texts, _ := b.taken()
	require.Empty(t, texts, "it is a write")
	b.feed.Change(Options{Share: 1, All: true, Compare: true})
	b.serve(t, "gat 10 s s2\r\n", stats.ResultOK, "VALUE s 0 1\r\na\r\nEND\r\n")
	texts, _ = b.taken()
	require.Equal(t, []string{"gat 10 s\r\n", "gat 10 s2\r\n"}, texts)

	b.serve(t, "get s s2 s3\r\n", stats.ResultServerError, "VALUE s2 0 1\r\na\r\n", "SERVER_ERROR x\r\n")
	texts, _ = b.taken()
	require.Equal(t, []string{"get s2\r\n"}, texts, "the client got no answer for the others")
	b.serve(t, "mg s v\r\n", stats.ResultOK, "VA 3 W\r\nabc\r\n")
	_, copies := b.taken()
	require.False(t, copies[0].compare, "another client gets another answer")
	b.feed.Change(Options{Share: 1})
	b.serve(t, "get s s2\r\n", stats.ResultServerError, "SERVER_ERROR x\r\n")
	_, copies = b.taken()
	require.Len(t, copies, 2)
	require.False(t, copies[0].compare)
}

// dropped returns how many copies were dropped, by reason.
func dropped(s *stats.Shadow) [stats.NumShadowDrops]uint64 { return snapshot(s).Dropped }

func snapshot(s *stats.Shadow) stats.ShadowSnapshot {
	var taken stats.Snapshot
	s.AddTo(&taken, nil)
	return taken.Shadows[0]
}

func TestCopiesThatDoNotFitAreDroppedAndTheirKeysAreInDoubt(t *testing.T) {
	b := newBench(Options{Share: 1, All: true, Compare: true})
	for range feedLength {
		b.serve(t, "get s\r\n", stats.ResultMiss, "END\r\n")
	}
	require.Zero(t, dropped(b.counts))
	b.serve(t, "get s\r\n", stats.ResultMiss, "END\r\n")
	require.False(t, b.feed.doubts.has(hash([]byte("s"))))
	b.serve(t, "set s 0 0 1\r\na\r\n", stats.ResultOK)
	require.True(t, b.feed.doubts.has(hash([]byte("s"))))
	require.Equal(t, [...]uint64{stats.ShadowQueueFull: 2, stats.ShadowNoMemory: 0}, dropped(b.counts))
	require.False(t, b.feed.doubts.has(hash([]byte("s2"))))
	b.serve(t, "flush_all\r\n", stats.ResultOK)
	require.True(t, b.feed.doubts.has(hash([]byte("s2"))))
	texts, _ := b.taken()
	require.Len(t, texts, feedLength)
	require.Zero(t, b.feed.bytes.Load())

	b = newBench(Options{Share: 1, All: true})
	large := strings.Repeat("x", 1<<20)
	for i := range feedBytes>>20 + 3 {
		b.serve(t, fmt.Sprintf("set s%d 0 0 %d\r\n%s\r\n", i, len(large), large), stats.ResultOK)
	}
	texts, _ = b.taken()
	require.Len(t, texts, feedBytes>>20-1)
	require.Zero(t, b.feed.bytes.Load())
	require.EqualValues(t, 4, dropped(b.counts)[stats.ShadowNoMemory])
	require.True(t, b.feed.doubts.has(hash(fmt.Appendf(nil, "s%d", feedBytes>>20))))
}

// shadowServer answers batches with fixed replies.
type shadowServer struct {
	t      *testing.T
	values map[string]string // by request: the reply
}

func (s *shadowServer) put(b *request.Batch) {
	var g wire.Gather
	for i := range b.Requests {
		reply, ok := s.values[string(b.Requests[i].Raw)]
		if !ok {
			reply = "STORED\r\n"
		}
		g.AddString(reply)
	}
	require.Equal(s.t, g.Len(), b.Client.Reply(&g))
	b.Client.Finish()
	b.Release()
}

// judged lets the shadow answer the waiting copies, and returns the results.
func (b *bench) judged(t *testing.T, j *judge, values map[string]string) (results []stats.ShadowResult) {
	t.Helper()
	s := &shadowServer{t: t, values: values}
	before := snapshot(b.counts)
	texts, copies := b.taken()
	if len(texts) == 0 {
		return nil
	}
	j.copies, j.next = copies, 0
	l := protocol.Limits{}.WithDefaults()
	require.True(t, j.Call([][]byte{[]byte(strings.Join(texts, ""))}, &l, s.put, j.element))
	j.end()
	after := snapshot(b.counts)
	for r := range stats.NumShadowResults {
		for range after.Answers[r] - before.Answers[r] {
			results = append(results, r)
		}
	}
	return results
}

func TestADifferenceCountsWhenItWasSeenTwiceWithoutAWriteBetween(t *testing.T) {
	b := newBench(Options{Share: 1, All: true, Compare: true})
	j := &judge{feed: b.feed, Caller: request.NewCaller()}
	get := func(answer, shadow string) stats.ShadowResult {
		t.Helper()
		b.serve(t, "get s\r\n", stats.ResultOK, answer)
		results := b.judged(t, j, map[string]string{"get s\r\n": shadow})
		require.Len(t, results, 1)
		return results[0]
	}
	const a, z, flagged, none = "VALUE s 0 1\r\na\r\nEND\r\n", "VALUE s 0 1\r\nz\r\nEND\r\n",
		"VALUE s 5 1\r\na\r\nEND\r\n", "END\r\n"
	require.Equal(t, stats.ShadowSame, get(a, a))
	require.Equal(t, stats.ShadowSame, get(none, none))
	require.Equal(t, stats.ShadowMiss, get(a, none))
	require.Equal(t, stats.ShadowHit, get(none, a))
	require.Equal(t, stats.ShadowError, get(a, "SERVER_ERROR away\r\n"))
	require.Equal(t, stats.ShadowUnknown, get(a, z), "seen once")
	require.Equal(t, stats.ShadowDifferent, get(a, z))
	require.Equal(t, stats.ShadowDifferent, get(a, z))
	require.Equal(t, stats.ShadowUnknown, get(a, flagged), "another difference")
	require.Equal(t, stats.ShadowDifferent, get(a, flagged))
	require.Equal(t, stats.ShadowSame, get(a, a))
	require.Equal(t, stats.ShadowUnknown, get(a, flagged), "they were equal meanwhile")
	b.serve(t, "set s 0 0 1\r\na\r\n", stats.ResultOK)
	require.Equal(t, []stats.ShadowResult{stats.ShadowIgnored}, b.judged(t, j, nil))
	require.Equal(t, stats.ShadowUnknown, get(a, flagged), "it was written meanwhile")
	require.Equal(t, stats.ShadowDifferent, get(a, flagged))
}

func TestAKeyInDoubtIsNeitherDifferentNorMissing(t *testing.T) {
	b := newBench(Options{Share: 1, All: true, Compare: true})
	j := &judge{feed: b.feed, Caller: request.NewCaller()}
	const a, z, none = "VALUE s 0 1\r\na\r\nEND\r\n", "VALUE s 0 1\r\nz\r\nEND\r\n", "END\r\n"
	get := func(shadow string) stats.ShadowResult {
		t.Helper()
		b.serve(t, "get s\r\n", stats.ResultOK, a)
		return b.judged(t, j, map[string]string{"get s\r\n": shadow})[0]
	}
	write := func(change func(o *request.Order)) {
		t.Helper()
		b.now += 10 * timeUnit
		var r protocol.Request
		l := protocol.Limits{}.WithDefaults()
		_, _, err := l.Decode([]byte("set s 0 0 1\r\na\r\n"), &r)
		require.NoError(t, err)
		o := request.Order{Dequeued: b.now - timeUnit, Received: b.now}
		change(&o)
		b.Write(&r, []byte("s"), stats.ResultOK, o)
		b.HandOver()
		b.judged(t, j, nil)
	}
	doubtful := func(why string) {
		t.Helper()
		for range 3 {
			require.Equal(t, stats.ShadowUnknown, get(z), why)
			require.Equal(t, stats.ShadowUnknown, get(none), why)
		}
		require.Equal(t, stats.ShadowSame, get(a))
		write(func(*request.Order) {})
		require.Equal(t, stats.ShadowUnknown, get(z))
		require.Equal(t, stats.ShadowDifferent, get(z), "it was written in order")
	}
	last := func() int64 { return j.writes[hash([]byte("s"))%writeSlots].Received }
	write(func(*request.Order) {})
	write(func(o *request.Order) { o.Dequeued = last() - 1 })
	doubtful("two writes were concurrent")
	write(func(o *request.Order) { o.Received, o.Dequeued = last()-2, last()-3 })
	doubtful("the earlier of two writes came later")
	b.serve(t, "set s 0 0 1\r\na\r\n", stats.ResultOK)
	b.judged(t, j, map[string]string{"set s 0 0 1\r\na\r\n": "SERVER_ERROR away\r\n"})
	b.now = max(b.now, stats.Now()) + timeUnit // the failure has a time of stats.Now
	doubtful("the shadow failed")
	b.serve(t, "set s 0 0 1\r\nb\r\n", stats.ResultServerError)
	doubtful("the pool failed")

	// These are in order.
	write(func(o *request.Order) { o.Locked = true })
	write(func(o *request.Order) { o.Locked, o.Dequeued = true, last()-1 })
	write(func(o *request.Order) { o.Worker, o.Index = 7, 3 })
	at := j.writes[hash([]byte("s"))%writeSlots].Order
	write(func(o *request.Order) { *o = at; o.Index = 4 })
	require.Equal(t, stats.ShadowUnknown, get(z))
	require.Equal(t, stats.ShadowDifferent, get(z))
	write(func(o *request.Order) { *o = at; o.Index = 1 })
	require.Equal(t, stats.ShadowUnknown, get(z))
	require.Equal(t, stats.ShadowUnknown, get(z), "the round planned them in the other order")

	write(func(*request.Order) {})
	j.writes[hash([]byte("s"))%writeSlots].key++
	write(func(o *request.Order) { o.Dequeued = last() - 1 })
	doubtful("the lock of another key orders nothing")
}

func TestADifferenceCountsOnlyWhenNoConcurrentWriteCanExplainIt(t *testing.T) {
	// 2 to 3 requests of serve
	b := newBench(Options{Share: 1, All: true, Compare: true, Within: 25 * time.Millisecond})
	j := &judge{feed: b.feed, Caller: request.NewCaller()}
	get := func(key string) stats.ShadowResult {
		t.Helper()
		request := "get " + key + "\r\n"
		b.serve(t, request, stats.ResultOK, "VALUE "+key+" 0 1\r\na\r\nEND\r\n")
		return b.judged(t, j, map[string]string{request: "VALUE " + key + " 0 1\r\nb\r\nEND\r\n"})[0]
	}
	for i, want := range []stats.ShadowResult{
		stats.ShadowUnknown, stats.ShadowUnknown, stats.ShadowUnknown,
		stats.ShadowDifferent, stats.ShadowDifferent,
	} {
		require.Equal(t, want, get("s"), i)
	}
	other, slot := "", hash([]byte("s"))%suspicions
	for i := 0; other == ""; i++ {
		if key := fmt.Sprint("s", i); hash([]byte(key))%suspicions == slot {
			other = key
		}
	}
	require.Equal(t, stats.ShadowUnknown, get(other))
	require.Equal(t, stats.ShadowDifferent, get("s"), "a key that shares its slot does not hide it")
	b.now += memory
	require.Equal(t, stats.ShadowUnknown, get(other))
	require.Equal(t, stats.ShadowUnknown, get("s"), "the slot now belongs to the other key")
	b.now += int64(time.Second)
	require.Equal(t, stats.ShadowDifferent, get(other))
}

func TestCopiesAnsweredWithNonsenseCountAsErrors(t *testing.T) {
	b := newBench(Options{Share: 1, All: true, Compare: true})
	j := &judge{feed: b.feed, Caller: request.NewCaller()}
	b.serve(t, "get s\r\n", stats.ResultMiss, "END\r\n")
	b.serve(t, "get s2\r\n", stats.ResultMiss, "END\r\n")
	require.Equal(t, []stats.ShadowResult{stats.ShadowError, stats.ShadowError},
		b.judged(t, j, map[string]string{"get s\r\n": "VALUE s 0 x"}))
}

func TestCopyingAllocatesNothing(t *testing.T) {
	mctest.RaceSkips(t, mctest.Allocates)
	b := newBench(Options{Share: 1, All: true, Compare: true})
	l := protocol.Limits{}.WithDefaults()
	var read, write protocol.Request
	_, _, err := l.Decode([]byte("get s k s2\r\n"), &read)
	require.NoError(t, err)
	_, _, err = l.Decode([]byte("set s 0 0 1\r\na\r\n"), &write)
	require.NoError(t, err)
	answer, key := []byte("VALUE s 0 1\r\na\r\nVALUE k 0 1\r\na\r\nEND\r\n"), []byte("s")
	once := func() {
		b.Out.Reset()
		b.Begin(&read, key)
		b.Add(answer)
		b.Read(stats.ResultPartial, -1, request.Order{})
		b.Write(&write, key, stats.ResultOK, request.Order{})
		b.HandOver()
		p := <-b.feed.parcels
		b.feed.bytes.Add(-p.taken)
		p.release()
	}
	once()
	require.Less(t, testing.AllocsPerRun(1000, once), 0.1)
}
