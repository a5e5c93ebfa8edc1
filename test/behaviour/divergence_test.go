package behaviour_test

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
	"mcmw/internal/route"
	"mcmw/internal/worker"
)

// A crowd is a number of clients that all write the same key at the same moment, then the next key.
const (
	crowdWriters = 16
	crowdTimes   = 3 // each writer's writes of a key
)

// crowdKeys is the number of keys a crowd writes; short is that of a short run.
func crowdKeys(short int) int {
	if mctest.Long() {
		return 2000
	}
	return short
}

// arrangement is a middleware under a crowd.
type arrangement struct {
	name     string
	options  middleware.Options
	replicas int // of three servers
}

func arrangements() []arrangement {
	var list []arrangement
	for _, replicas := range []int{3, 2} {
		for _, depth := range []int{1, 32} {
			for pool, workers := range map[middleware.WorkerPool]int{
				middleware.WorkersShared: 8, middleware.WorkersPerServer: 2,
			} {
				name := "shared"
				if pool == middleware.WorkersPerServer {
					name = "per server"
				}
				list = append(list, arrangement{
					name: fmt.Sprintf("%s, depth %d, replicas %d of 3", name, depth, replicas),
					options: middleware.Options{
						Workers: workers, RequestOptions: worker.RequestOptions{Depth: depth},
						WorkerPool: pool,
					},
					replicas: replicas,
				})
			}
		}
	}
	return append(list, arrangement{
		name: "suspects, depth 32, replicas 3 of 3",
		options: middleware.Options{
			Workers:        8,
			RequestOptions: worker.RequestOptions{StallAfter: hasty, Timeout: mctest.Patience},
		},
		replicas: 3,
	})
}

// barrier blocks a number of goroutines until all have arrived. Once broken, it blocks no more.
type barrier struct {
	mu      sync.Mutex
	changed *sync.Cond
	missing int // guarded by mu: goroutines that have not arrived
	size    int
	turn    int  // guarded by mu: how often all have arrived
	broken  bool // guarded by mu
}

func newBarrier(size int) *barrier {
	b := &barrier{size: size, missing: size}
	b.changed = sync.NewCond(&b.mu)
	return b
}

// await returns when all have called it; false if the barrier is broken.
func (b *barrier) await() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	turn := b.turn
	b.missing--
	if b.missing == 0 {
		b.missing = b.size
		b.turn++
		b.changed.Broadcast()
	}
	for turn == b.turn && !b.broken {
		b.changed.Wait()
	}
	return !b.broken
}

func (b *barrier) breakUp() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.broken = true
	b.changed.Broadcast()
}

// writer is one client of a crowd.
type writer struct {
	client  *mctest.Client
	random  *rand.Rand
	name    string
	written int // the number of writes so far, which makes every value different
}

// write is one write as it is sent, with its number of replies. A quiet one ends with an mn.
type write struct {
	text    string
	replies int
	quiet   bool
}

// value returns a value that no other write has: text, or ten digits, which stay ten digits in the test's arithmetic.
// (memcached pads a number that gets shorter with spaces, but only if nobody else references the item.)
func (w *writer) value() string {
	w.written++
	if w.random.IntN(2) == 0 {
		return strconv.Itoa(5_000_000_000 + w.random.IntN(1_000_000_000))
	}
	return fmt.Sprintf("%s-%d", w.name, w.written)
}

// expiry returns a time to live: none, or one that differs from those of other writers.
func (w *writer) expiry() int { return w.random.IntN(4) * 10_000 }

// set returns a set of key.
func (w *writer) set(key string) write {
	value := w.value()
	return write{text: fmt.Sprintf("set %s 0 0 %d\r\n%s\r\n", key, len(value), value), replies: 1}
}

// any returns a write of key of some kind.
func (w *writer) any(key string) (write, error) {
	value := w.value()
	flags, expiry, delta := w.random.IntN(1000), w.expiry(), 1+w.random.IntN(1000)
	var text string
	switch kind := w.random.IntN(14); kind {
	case 0, 1, 2, 3, 4:
		verb := [...]string{"set", "add", "replace", "append", "prepend"}[kind]
		text = fmt.Sprintf("%s %s %d %d %d%%s\r\n%s\r\n", verb, key, flags, expiry, len(value), value)
	case 5:
		text = fmt.Sprintf("delete %s%%s\r\n", key)
	case 6:
		text = fmt.Sprintf("incr %s %d%%s\r\n", key, delta)
	case 7:
		text = fmt.Sprintf("decr %s %d%%s\r\n", key, delta)
	case 8:
		text = fmt.Sprintf("touch %s %d%%s\r\n", key, expiry)
	case 9:
		return write{text: fmt.Sprintf("gat %d %s\r\n", expiry, key), replies: 1}, nil
	case 10:
		return write{text: fmt.Sprintf("gats %d %s\r\n", expiry, key), replies: 1}, nil
	case 11:
		token, err := w.token(key)
		if err != nil {
			return write{}, err
		}
		text = fmt.Sprintf("cas %s %d %d %d %s%%s\r\n%s\r\n", key, flags, expiry, len(value), token, value)
	default:
		return w.meta(key, value, flags, expiry, delta)
	}
	if w.random.IntN(4) == 0 {
		return write{text: fmt.Sprintf(text, " noreply")}, nil
	}
	return write{text: fmt.Sprintf(text, ""), replies: 1}, nil
}

// meta returns a meta command that writes key.
func (w *writer) meta(key, value string, flags, expiry, delta int) (write, error) {
	condition := ""
	if w.random.IntN(4) == 0 {
		token, err := w.token(key)
		if err != nil {
			return write{}, err
		}
		condition = " C" + token
	}
	if w.random.IntN(4) == 0 {
		key = base64.StdEncoding.EncodeToString([]byte(key)) + " b"
	}
	key, encoded, _ := strings.Cut(key, " ")
	if encoded != "" {
		encoded = " " + encoded
	}
	var text string
	switch w.random.IntN(6) {
	case 0, 1:
		mode := "SERAP"[w.random.IntN(5)]
		text = fmt.Sprintf("ms %s %d%s F%d T%d M%c%s%%s\r\n%s\r\n", key, len(value), encoded, flags, expiry, mode,
			condition, value)
	case 2:
		text = fmt.Sprintf("ma %s%s D%d M%c v%s%%s\r\n", key, encoded, delta, "ID"[w.random.IntN(2)], condition)
	case 3:
		text = fmt.Sprintf("ma %s%s N0 J%d D%d v%s%%s\r\n", key, encoded, 5_000_000_000+delta, delta, condition)
	case 4:
		text = fmt.Sprintf("md %s%s%s%%s\r\n", key, encoded, condition)
	case 5:
		return write{text: fmt.Sprintf("mg %s%s v T%d\r\n", key, encoded, expiry), replies: 1}, nil
	}
	if w.random.IntN(3) == 0 {
		return write{text: fmt.Sprintf(text, " q") + "mn\r\n", quiet: true}, nil
	}
	return write{text: fmt.Sprintf(text, ""), replies: 1}, nil
}

// token returns the cas of key; "1", which no item has, if there is none.
func (w *writer) token(key string) (string, error) {
	reply, err := w.client.Do("gets " + key + "\r\n")
	if err != nil {
		return "", err
	}
	items, err := mctest.ParseValues(reply)
	if err != nil || len(items) == 0 {
		return "1", err
	}
	return items[0].Cas, nil
}

// send writes the writes together and reads their replies. It fails on an answer that no write of the test can get.
func (w *writer) send(writes ...write) error {
	var text strings.Builder
	for _, one := range writes {
		text.WriteString(one.text)
	}
	if err := w.client.Send([]byte(text.String())); err != nil {
		return err
	}
	for _, one := range writes {
		for n := 0; n < one.replies || one.quiet; n++ {
			reply, err := w.client.Reply()
			switch {
			case err != nil:
				return fmt.Errorf("after %q: %w", one.text, err)
			case reply == "MN\r\n":
				one.quiet = false
			case strings.HasPrefix(reply, "SERVER_ERROR"), reply == "ERROR\r\n",
				strings.HasPrefix(reply, "CLIENT_ERROR") && !strings.Contains(reply, "non-numeric"):
				return fmt.Errorf("%q was answered %q", one.text, reply)
			}
		}
	}
	return nil
}

// writeAtOnce lets the crowd write every key with the writes that compose returns, through the middlewares of fleet in
// turn. A writer sends its writes of a key one by one and together, in turn.
func writeAtOnce(t *testing.T, fleet []*mwtest.MW, seed uint64, keys []string,
	compose func(w *writer, key string) (write, error),
) {
	t.Helper()
	start := newBarrier(crowdWriters)
	var wg sync.WaitGroup
	for i := range crowdWriters {
		w := &writer{
			client: fleet[i%len(fleet)].Dial(t), random: rand.New(rand.NewPCG(seed, uint64(i))),
			name: fmt.Sprintf("writer-%d", i),
		}
		wg.Go(func() {
			if err := w.writeAll(start, keys, compose); err != nil {
				t.Errorf("%s: %v", w.name, err)
				start.breakUp()
			}
		})
	}
	wg.Wait()
}

func (w *writer) writeAll(start *barrier, keys []string, compose func(w *writer, key string) (write, error)) error {
	for n, key := range keys {
		if !start.await() {
			return nil
		}
		var together []write
		for range crowdTimes {
			one, err := compose(w, key)
			if err != nil {
				return err
			}
			if together = append(together, one); n%2 == 0 {
				if err := w.send(together...); err != nil {
					return err
				}
				together = together[:0]
			}
		}
		if err := w.send(together...); err != nil {
			return err
		}
	}
	// A reply shows that earlier requests without replies have been executed.
	_, err := w.client.Do("mn\r\n")
	return err
}

// stateOf returns a server's state of keys: client flags and value, whether it is stale, and the time to live, in units
// so coarse that the time of the request does not matter.
func stateOf(t *testing.T, addr string, keys []string) []string {
	t.Helper()
	c := mctest.MustDial(t, addr)
	defer c.Close() // it may be called many times
	var text strings.Builder
	for _, key := range keys {
		fmt.Fprintf(&text, "mg %s f t v\r\n", key)
	}
	sent := make(chan error, 1)
	go func() { sent <- c.Send([]byte(text.String())) }()
	states := make([]string, len(keys))
	for i := range keys {
		reply := c.MustReply(t)
		line, value, _ := strings.Cut(reply, "\r\n")
		for _, word := range strings.Fields(line) {
			switch word[0] {
			case 'f', 'X':
				states[i] += word + " "
			case 't':
				seconds, _ := strconv.Atoi(word[1:])
				states[i] += fmt.Sprintf("t%d ", (seconds+5000)/10_000)
			}
		}
		if line != "EN" {
			states[i] += value
		}
	}
	require.NoError(t, <-sent)
	return states
}

// differing returns a line for each key whose holders differ, or that another server holds, and the number of keys that
// exist.
func differing(t *testing.T, servers []route.Server, placement route.Options, keys []string) (lines []string,
	present int,
) {
	t.Helper()
	router, err := route.New(servers, placement)
	require.NoError(t, err)
	states := make([][]string, len(servers))
	for s, server := range servers {
		states[s] = stateOf(t, server.Addr, keys)
	}
	for k, key := range keys {
		holders := router.Replicas([]byte(key), nil)
		holds := make([]bool, len(servers))
		for _, s := range holders {
			holds[s] = true
		}
		want := states[holders[0]][k]
		if want != "" {
			present++
		}
		for s := range servers {
			if got := states[s][k]; (holds[s] && got != want) || (!holds[s] && got != "") {
				lines = append(lines, fmt.Sprintf("%s: holders %v: %q, server %d: %q", key, holders, want, s, got))
			}
		}
	}
	return lines, present
}

// A crowd writes keys with commands of all kinds, and sometimes a flush, and the servers are compared after each batch
// of keys. A batch is small, so that keys that are compared were written after the last flush. With fewer replicas
// there are fewer keys, because less can go wrong.
func TestConcurrentWritesOfAllKindsLeaveReplicasEqual(t *testing.T) {
	const batch = 10
	start, found := mctest.Seed(t), 0
	defer func() { assert.NotZero(t, found, "keys that were present when they were compared") }()
	compose := func(w *writer, key string) (write, error) {
		switch w.random.IntN(1000) {
		case 0:
			return write{text: "flush_all\r\n", replies: 1}, nil
		case 1:
			return write{text: "flush_all noreply\r\n"}, nil
		}
		return w.any(key)
	}
	for _, a := range arrangements() {
		t.Run(a.name, func(t *testing.T) {
			seed := start
			o := a.options
			o.Servers = mwtest.Servers(mctest.StartMemcacheds(t, 3)...)
			o.Placement.Replicas = a.replicas
			m := mwtest.Start(t, o)
			all := numbered(crowdKeys(30))
			if a.replicas < 3 {
				all = all[:max(len(all)/4, batch)]
			}
			present := 0
			for some := range slices.Chunk(all, batch) {
				seed++ // every batch has another crowd
				writeAtOnce(t, []*mwtest.MW{m}, seed, some, compose)
				lines, there := differing(t, o.Servers, o.Placement, some)
				require.Empty(t, lines)
				present += there
			}
			t.Logf("%d of %d keys were present when they were compared", present, len(all))
			found += present
			for _, s := range m.Stats().Snapshot().Servers {
				assert.Zero(t, s.Repairs, "no server failed, nothing was evicted, and yet %s disagreed with another",
					s.Name)
			}
		})
	}
}
