package behaviour_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/large"
	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
	"mcmw/internal/netstage"
	"mcmw/internal/plan"
	"mcmw/internal/protocol"
	"mcmw/internal/route"
	"mcmw/internal/worker"
)

// smallItem is a small -I of servers, smallLimit the largest value that clients can store then. plainSize is the
// largest value stored as one item.
const (
	smallItem  = 16 << 10
	smallLimit = 100_000
	plainSize  = smallItem - large.ItemOverhead
)

// chunkedServers starts servers whose items are small.
func chunkedServers(t *testing.T, n int) []*mctest.Server {
	t.Helper()
	return mctest.StartNewMemcacheds(t, n, "-I", "16k", "-t", "1", "-m", "1024", "-o",
		"slab_chunk_max=16,no_lru_maintainer")
}

// chunking returns options with large-values.
func chunking(servers []*mctest.Server) middleware.Options {
	o := middleware.Options{Servers: mwtest.Servers(servers...)}
	o.Large = plan.Large{Limit: smallLimit, Item: smallItem}
	o.Limits = protocol.Limits{MaxValue: 2 * smallLimit}
	return o
}

// filler returns size bytes that depend on their position and on seed.
func filler(seed, size int) string {
	value := make([]byte, size)
	for i := range value {
		value[i] = byte(i>>8 ^ i*7 ^ seed)
	}
	return string(value)
}

func setOf(verb, key, value string) string {
	return fmt.Sprintf("%s %s 7 0 %d\r\n%s\r\n", verb, key, len(value), value)
}

func valueOf(key, value string) string {
	return fmt.Sprintf("VALUE %s 7 %d\r\n%s\r\n", key, len(value), value)
}

// script returns commands with values of all sizes, which one memcached with large items answers equally.
func chunkScript(random *rand.Rand, steps int) []string {
	key := func() string { return fmt.Sprintf("key-%d", random.IntN(5)) }
	sizes := []int{
		0, 1, 3, plainSize - 1, plainSize, plainSize + 1, smallItem, smallItem + 1, 2 * plainSize,
		2*plainSize + 1, 40_000, smallLimit - 1, smallLimit,
	}
	value := func() string {
		v := filler(random.IntN(256), sizes[random.IntN(len(sizes))])
		if random.IntN(4) == 0 {
			h := large.New(large.NewVersion(), []byte(v), plainSize)
			v = string(h.Append(nil))
			if random.IntN(2) == 0 {
				h = large.NewInline([]byte("forged"))
				v = string(h.Append(nil)) + "forged" + filler(1, random.IntN(3)*plainSize)
			}
		}
		return v
	}
	var script []string
	for range steps {
		k := key()
		switch random.IntN(14) {
		case 0, 1, 2, 3:
			script = append(script, setOf("set", k, value()))
		case 4:
			script = append(script, setOf("add", k, value()))
		case 5:
			script = append(script, setOf("replace", k, value()))
		case 6:
			v := value()
			script = append(script, fmt.Sprintf("ms %s %d F7 O%d k\r\n%s\r\n", k, len(v), random.IntN(100), v))
		case 7:
			v := value()
			script = append(script, fmt.Sprintf("ms %s %d q MR F7\r\n%s\r\n", k, len(v), v))
		case 8:
			script = append(script, fmt.Sprintf("mg %s v s f k O1\r\n", k), fmt.Sprintf("mg %s q v\r\n", k))
		case 9:
			script = append(script, "delete "+k+"\r\n")
		case 10:
			script = append(script, "incr "+k+" 1\r\n")
		case 11:
			script = append(script, "gat 0 "+k+" "+key()+"\r\n", "touch "+k+" 0\r\n")
		case 12:
			script = append(script, "get "+k+" "+key()+" none "+key()+" "+key()+"\r\n")
		default:
			script = append(script, "get "+k+"\r\n")
		}
	}
	return append(script, "mn\r\n")
}

func TestRepliesOfValuesInChunksEqualThoseOfOneMemcachedWithLargeItems(t *testing.T) {
	seed := mctest.Seed(t)
	steps := 150
	if mctest.Long() {
		steps = 10_000
	}
	for name, change := range map[string]func(o *middleware.Options){
		"one replica":           func(o *middleware.Options) { o.Placement.Replicas = 1 },
		"all replicas, sharded": func(o *middleware.Options) { o.Sharded = true },
		"two replicas, one writer": func(o *middleware.Options) {
			o.Placement.Replicas, o.Writers = 2, middleware.WritersOne
		},
		"depth 1, workers of a server": func(o *middleware.Options) {
			o.Depth, o.WorkerPool = 1, middleware.WorkersPerServer
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := chunking(chunkedServers(t, 3))
			o.RequestOptions = worker.RequestOptions{Depth: 16}
			change(&o)
			m := mwtest.Start(t, o)
			reference := mctest.StartNewMemcached(t, append([]string{"-I", "1m"}, referenceArgs...)...)
			random := rand.New(rand.NewPCG(uint64(seed), 1))
			got, want := m.Dial(t), mctest.MustDial(t, reference.Addr())
			for done := 0; done < steps; {
				script := chunkScript(random, 1+random.IntN(12))
				done += len(script)
				text := strings.Join(script, "")
				sent := make(chan error, 1)
				go func() { sent <- got.Send([]byte(text)) }()
				require.NoError(t, want.Send([]byte(text)))
				for end := false; !end; {
					reply := want.MustReply(t)
					require.Equal(t, digest(reply), digest(got.MustReply(t)), "in %q", brief(script))
					end = reply == "MN\r\n"
				}
				require.NoError(t, <-sent)
			}
		})
	}
}

// digest is a short text that distinguishes replies.
func digest(reply string) string {
	if len(reply) <= 200 {
		return reply
	}
	line, _, _ := strings.Cut(reply, "\r\n")
	return fmt.Sprintf("%s (%d bytes, sum %08x)", line, len(reply), large.Sum(0, []byte(reply)))
}

func brief(script []string) (lines []string) {
	for _, s := range script {
		line, _, _ := strings.Cut(s, "\r\n")
		lines = append(lines, line)
	}
	return lines
}

func TestAConditionAppliesToTheWholeLargeValue(t *testing.T) {
	for name, writers := range map[string]middleware.Writers{
		"one writer":      middleware.WritersOne,
		"several writers": middleware.WritersSeveral,
	} {
		t.Run(name, func(t *testing.T) {
			o := chunking(chunkedServers(t, 2))
			o.Writers = writers
			a, b := mwtest.Start(t, o).Dial(t), mwtest.Start(t, o).Dial(t)
			first, second, third := filler(1, 50_000), filler(2, 50_001), filler(3, smallLimit)
			require.Equal(t, "STORED\r\n", a.MustDo(t, setOf("set", "k", first)))
			items, err := mctest.ParseValues(b.MustDo(t, "gets k\r\n"))
			require.NoError(t, err)
			require.Len(t, items, 1)
			require.Equal(t, first, string(items[0].Value))
			cas := func(value string) string {
				return fmt.Sprintf("cas k 7 0 %d %s\r\n%s\r\n", len(value), items[0].Cas, value)
			}
			require.Equal(t, "STORED\r\n", a.MustDo(t, cas(second)))
			require.Equal(t, "EXISTS\r\n", b.MustDo(t, cas(third)))
			for range 4 {
				require.Equal(t, digest(valueOf("k", second)+"END\r\n"), digest(b.MustDo(t, "get k\r\n")))
			}
			require.Equal(t, "NOT_STORED\r\n", b.MustDo(t, setOf("add", "k", third)))
			require.Equal(t, "DELETED\r\n", a.MustDo(t, "delete k\r\n"))
			require.Equal(t, "NOT_STORED\r\n", b.MustDo(t, setOf("replace", "k", third)))
			require.Equal(t, "STORED\r\n", b.MustDo(t, setOf("add", "k", third)))
			require.Equal(t, digest(valueOf("k", third)+"END\r\n"), digest(a.MustDo(t, "get k\r\n")))
		})
	}
}

// chunkKeys returns the keys of the chunks of the value under k on a server.
func chunkKeys(t *testing.T, server *mctest.Client, k string) (keys []string) {
	t.Helper()
	items, err := mctest.ParseValues(server.MustDo(t, "get "+k+"\r\n"))
	require.NoError(t, err)
	require.Len(t, items, 1)
	h, _, ok := large.Decode([]byte(items[0].Value))
	require.True(t, ok)
	for n := range h.Chunks() {
		keys = append(keys, string(h.AppendKey(nil, n)))
	}
	return keys
}

func TestAfterAReadAValueWithAMissingChunkIsAMissForAllCommands(t *testing.T) {
	server := chunkedServers(t, 1)[0]
	m := mwtest.Start(t, chunking([]*mctest.Server{server}))
	c, direct := m.Dial(t), mctest.MustDial(t, server.Addr())
	value, other := filler(5, 3*plainSize), filler(6, 2*plainSize)
	miss := map[string]string{
		"get k\r\n": "END\r\n", "mg k v f O9\r\n": "EN O9\r\n", "gat 0 k\r\n": "END\r\n",
		"get k small k\r\n": "VALUE small 7 1\r\nx\r\nEND\r\n", "mg aw== b v k\r\n": "EN kaw== b\r\n",
	}
	require.Equal(t, "STORED\r\n", c.MustDo(t, setOf("set", "small", "x")))
	ruins := map[string]func(key, body string){
		"gone":      func(key, _ string) { direct.MustDo(t, "delete "+key+"\r\n") },
		"shorter":   func(key, body string) { direct.MustDo(t, setOf("set", key, body[1:])) },
		"different": func(key, body string) { direct.MustDo(t, setOf("set", key, "?"+body[1:])) },
	}
	behind := []struct{ command, answer string }{
		{setOf("replace", "k", other), "NOT_STORED\r\n"},
		{"", ""}, // a cas with the token of the incomplete value
		{"incr k 1\r\n", "NOT_FOUND\r\n"},
		{"touch k 0\r\n", "NOT_FOUND\r\n"},
		{"mg k t\r\n", "EN\r\n"},
		{"delete k\r\n", "NOT_FOUND\r\n"},
		{
			setOf("append", "k", "x"),
			"CLIENT_ERROR append and prepend are not available through mcmw in a pool with large-values\r\n",
		},
		{setOf("add", "k", other), "STORED\r\n"},
		{"get k\r\n", valueOf("k", other) + "END\r\n"},
	}
	turn := 0
	for read, answer := range miss {
		for how, ruin := range ruins {
			require.Equal(t, "STORED\r\n", c.MustDo(t, setOf("set", "k", value)))
			items, err := mctest.ParseValues(c.MustDo(t, "gets k\r\n"))
			require.NoError(t, err)
			keys := chunkKeys(t, direct, "k")
			require.Len(t, keys, 3)
			key := keys[turn%len(keys)]
			turn++
			held, err := mctest.ParseValues(direct.MustDo(t, "get "+key+"\r\n"))
			require.NoError(t, err)
			ruin(key, held[0].Value)
			require.Equal(t, "NOT_STORED\r\n", c.MustDo(t, setOf("add", "k", other)),
				"no read has found the missing chunk yet")
			require.Equal(t, answer, c.MustDo(t, read), "%s of a value with a chunk that is %s", read, how)
			behind[1].command = fmt.Sprintf("cas k 7 0 %d %s\r\n%s\r\n", len(other), items[0].Cas, other)
			behind[1].answer = "NOT_FOUND\r\n"
			for _, b := range behind {
				require.Equal(t, digest(b.answer), digest(c.MustDo(t, b.command)),
					"%s after %s of a value with a chunk that is %s", brief([]string{b.command}), read, how)
			}
		}
	}
	assert.Equal(t, uint64(turn+len(ruins)), m.Settled(t).Large.Incomplete, "one of the reads has the key twice")
}

func TestCommandsThatAPoolWithLargeValuesDoesNotSupportAreRefusedAndChangeNothing(t *testing.T) {
	m := mwtest.Start(t, chunking(chunkedServers(t, 2)))
	c := m.Dial(t)
	value := filler(9, 50_000)
	require.Equal(t, "STORED\r\n", c.MustDo(t, setOf("set", "k", value)))
	for _, command := range []string{
		setOf("append", "k", "x"), setOf("prepend", "k", "x"), "ms k 1 MA\r\nx\r\n", "ms k 1 MP\r\nx\r\n", "mg k s\r\n",
		"mg k v T9\r\n", "mg k v N9\r\n", "mg k v R9\r\n",
		fmt.Sprintf("ms k %d s\r\n%s\r\n", len(value), value),
	} {
		assert.Contains(t, c.MustDo(t, command), " through mcmw in a pool with large-values", brief([]string{command}))
	}
	assert.Equal(t, "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n", c.MustDo(t, "incr k 1\r\n"))
	assert.Equal(t, digest(valueOf("k", value)+"END\r\n"), digest(c.MustDo(t, "get k\r\n")))
	// As in memcached, storing a value that is too large removes the old value.
	assert.Equal(t, "NOT_STORED\r\n", c.MustDo(t, setOf("add", "k", "x")))
	assert.Equal(t, protocol.TextTooLarge, c.MustDo(t, setOf("set", "k", filler(1, smallLimit+1))))
	assert.Equal(t, "END\r\n", c.MustDo(t, "get k\r\n"))
	assert.Equal(t, protocol.TextTooLarge, c.MustDo(t, setOf("set", "k", filler(1, 2*smallLimit+1))))
}

func TestAValueOfThreeMebibytesIsStoredOnServersWithItemsOfOne(t *testing.T) {
	o := middleware.Options{
		Servers: mwtest.Servers(mctest.StartNewMemcacheds(t, 2, "-I", "1m")...),
		Policy:  plan.Policy{Large: plan.Large{Limit: 4 << 20}},
	}
	o.Limits, o.Placement = protocol.Limits{MaxValue: 4 << 20}, route.Options{}
	c := mwtest.Start(t, o).Dial(t)
	for _, size := range []int{
		1<<20 - large.ItemOverhead - 1, 1<<20 - large.ItemOverhead,
		1<<20 - large.ItemOverhead + 1, 1 << 20, 3 << 20, 4 << 20,
	} {
		value := string(bytes.Repeat([]byte(filler(size, 1021)), size/1021+1)[:size])
		require.Equal(t, "STORED\r\n", c.MustDo(t, setOf("set", "k", value)))
		require.Equal(t, digest(valueOf("k", value)+"END\r\n"), digest(c.MustDo(t, "get k\r\n")))
	}
	assert.Equal(t, protocol.TextTooLarge, c.MustDo(t, setOf("set", "k", filler(1, 4<<20+1))))
}

// The clients read a piece of their replies for each request of another client.
func TestClientsThatReadLargeValuesSlowlyTakeBoundedMemory(t *testing.T) {
	const clients, size, memory, piece = 5, 8 << 20, 2 << 20, 128 << 10
	o := middleware.Options{
		Servers: mwtest.Servers(mctest.StartMemcached(t, "-m", "128")), Workers: 1,
		Policy: plan.Policy{Large: plan.Large{Limit: size}},
	}
	// a client that has to wait for its turn for seconds is not slow
	o.ClientOptions = netstage.ClientOptions{
		Limits: protocol.Limits{MaxValue: size}, ClientMemory: memory,
		WriteTimeout: 2 * mctest.Patience, MinRate: -1,
	}
	o.Timeout = mctest.Patience
	m := mwtest.Start(t, o)
	value := string(bytes.Repeat([]byte(filler(1, 1<<10)), size>>10))
	other := m.Dial(t)
	require.Equal(t, "STORED\r\n", other.MustDo(t, setOf("set", "k", value)))
	require.Equal(t, "STORED\r\n", other.MustDo(t, setOf("set", "small", "x")))
	taken := func() int64 { return m.Stats().Snapshot().ReplyMemory }
	turns, ended := make(chan struct{}, clients), make(chan error, clients)
	for n := range clients {
		c := m.Dial(t)
		conn := c.Conn.(*net.TCPConn)
		require.NoError(t, conn.SetReadBuffer(64<<10))
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(2*mctest.Patience)))
		request, want := "get k\r\n", valueOf("k", value)+"END\r\n"
		switch n % 3 {
		case 1:
			request, want = "mg k v\r\n", fmt.Sprintf("VA %d\r\n%s\r\n", size, value)
		case 2:
			request, want = "get small k none\r\n", valueOf("small", "x")+want
		}
		require.NoError(t, c.Send([]byte(request)))
		go func() {
			got := make([]byte, len(want))
			for at := 0; at < len(got); {
				<-turns
				end := min(len(got), at+piece)
				if _, err := io.ReadFull(conn, got[at:end]); err != nil {
					ended <- fmt.Errorf("%q: after %d bytes: %w", request, at, err)
					return
				}
				at = end
			}
			if string(got) != want {
				ended <- fmt.Errorf("%q was answered with %s", request, digest(string(got)))
				return
			}
			ended <- nil
		}()
	}
	most := int64(0)
	for left := clients; left > 0; {
		require.Equal(t, valueOf("small", "x")+"END\r\n", other.MustDo(t, "get small\r\n"))
		most = max(most, taken())
		select {
		case err := <-ended:
			require.NoError(t, err)
			left--
		case turns <- struct{}{}:
		default:
		}
	}
	t.Logf("%.1f MiB at most", float64(most)/(1<<20))
	assert.Greater(t, most, int64(memory))
	assert.LessOrEqual(t, most, int64(memory+size+100), "the replies, and a value for the worker")
}
