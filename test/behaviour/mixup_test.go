package behaviour_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
	"mcmw/internal/worker"
)

const (
	mixupConnections = 100
	mixupKeys        = 40
	// largestMixup is the size of the largest values, bytes: several reads and writes each.
	largestMixup = 40_000
)

// mixupClient opens connections one after the other, uses them, and ends them in ways that leave requests and replies
// unfinished. It accepts only complete values that name their key and their writer.
type mixupClient struct {
	id    int
	addr  string
	rng   *rand.Rand
	seq   int
	errOK bool // SERVER_ERROR is accepted, because the test makes servers fail
	read  *atomic.Int64
}

func mixupKey(i int) string { return fmt.Sprintf("mix-%d", i) }

// mixupValue is the value of key that writer stores with its write number seq. Its length depends on all three.
func mixupValue(key string, writer, seq int) string {
	head := fmt.Sprintf("%s|%d|%d|", key, writer, seq)
	size := (seq * 37) % 200
	if seq%7 == 0 {
		size = (seq*7919 + writer) % largestMixup
	}
	return head + strings.Repeat(head, size/len(head)) + head[:size%len(head)]
}

// checkMixupValue reports a value that was not written for key in this form.
func checkMixupValue(key, value string) error {
	var writer, seq int
	rest, ok := strings.CutPrefix(value, key+"|")
	if !ok {
		return fmt.Errorf("a reply for %s holds %q", key, cut(value))
	}
	if _, err := fmt.Sscanf(rest, "%d|%d|", &writer, &seq); err != nil || mixupValue(key, writer, seq) != value {
		return fmt.Errorf("%s holds a value that nobody wrote in whole: %q", key, cut(value))
	}
	return nil
}

// life opens one connection, uses it for a while and ends it.
func (m *mixupClient) life() error {
	c, err := mctest.Dial(m.addr)
	if err != nil {
		return err
	}
	defer c.Close()
	for range m.rng.IntN(6) {
		if err := m.batch(c, 1+m.rng.IntN(12)); err != nil {
			return err
		}
	}
	return m.end(c)
}

// request is one request with its accepted replies.
type request struct {
	text string
	keys []string // of a retrieval
}

func (m *mixupClient) request() request {
	if m.rng.IntN(3) == 0 {
		m.seq++
		key := mixupKey(m.rng.IntN(mixupKeys))
		value := mixupValue(key, m.id, m.seq)
		return request{text: fmt.Sprintf("set %s 0 0 %d\r\n%s\r\n", key, len(value), value)}
	}
	r := request{}
	for range 1 + m.rng.IntN(8) {
		r.keys = append(r.keys, mixupKey(m.rng.IntN(mixupKeys)))
	}
	r.text = "get " + strings.Join(r.keys, " ") + "\r\n"
	return r
}

// batch pipelines n requests and checks their replies.
func (m *mixupClient) batch(c *mctest.Client, n int) error {
	requests := make([]request, n)
	var out strings.Builder
	for i := range requests {
		requests[i] = m.request()
		out.WriteString(requests[i].text)
	}
	if err := c.Send([]byte(out.String())); err != nil {
		return err
	}
	for _, r := range requests {
		if err := m.reply(c, r); err != nil {
			return err
		}
	}
	return nil
}

func (m *mixupClient) reply(c *mctest.Client, r request) error {
	text, err := c.Reply()
	if err != nil {
		return fmt.Errorf("%.60q: %w", r.text, err)
	}
	m.read.Add(1)
	items, rest := text, ""
	if i := strings.LastIndex(text[:len(text)-2], "\r\n"); i >= 0 {
		items, rest = text[:i+2], text[i+2:]
	} else {
		items, rest = "", text
	}
	if strings.HasPrefix(rest, "SERVER_ERROR ") && m.errOK {
		rest = map[bool]string{true: "STORED\r\n", false: "END\r\n"}[r.keys == nil]
	}
	if r.keys == nil {
		if text = items + rest; text != "STORED\r\n" {
			return fmt.Errorf("%.60q was answered by %q", r.text, cut(text))
		}
		return nil
	}
	values, err := mctest.ParseValues(items + rest)
	if err != nil {
		return fmt.Errorf("%.60q: %w", r.text, err)
	}
	keys := r.keys
	for _, v := range values {
		for len(keys) > 0 && keys[0] != v.Key {
			keys = keys[1:]
		}
		if len(keys) == 0 {
			return fmt.Errorf("%.60q was answered with a value of %s, out of order or not asked for", r.text, v.Key)
		}
		keys = keys[1:]
		if err := checkMixupValue(v.Key, v.Value); err != nil {
			return err
		}
	}
	return nil
}

// end leaves the connection in one of the ways that clients do.
func (m *mixupClient) end(c *mctest.Client) error {
	drop := func() error {
		if m.rng.IntN(2) == 0 {
			return c.Reset()
		}
		return c.Close()
	}
	send := func(text string) error {
		if err := c.Send([]byte(text)); err != nil {
			return err
		}
		return drop()
	}
	switch m.rng.IntN(7) {
	case 0:
		return drop()
	case 1: // in the middle of a line, after a complete request
		r := m.request()
		return send(r.text + "get mix-1 mix-" + strings.Repeat("1", m.rng.IntN(3)))
	case 2: // in the middle of a value
		m.seq += 7 - m.seq%7 // a large one
		key := mixupKey(m.rng.IntN(mixupKeys))
		value := mixupValue(key, m.id, m.seq)
		text := fmt.Sprintf("set %s 0 0 %d\r\n%s\r\n", key, len(value), value)
		return send(text[:len(text)-1-m.rng.IntN(len(value))])
	case 3: // with replies in flight
		var all strings.Builder
		for range 1 + m.rng.IntN(10) {
			all.WriteString(m.request().text)
		}
		return send(all.String())
	case 4: // in the middle of a reply
		keys := make([]string, mixupKeys)
		for i := range keys {
			keys[i] = mixupKey(i)
		}
		if err := c.Send([]byte("get " + strings.Join(keys, " ") + "\r\n")); err != nil {
			return err
		}
		if _, err := c.Line(); err != nil {
			return err
		}
		return drop()
	case 5: // half-closed, but reading the replies
		r := m.request()
		if err := c.Send([]byte(r.text)); err != nil {
			return err
		}
		if err := c.CloseWrite(); err != nil {
			return err
		}
		if err := m.reply(c, r); err != nil {
			return err
		}
		rest, err := c.Rest()
		if rest != "" {
			err = errors.Join(err, fmt.Errorf("%q follows the last reply", cut(rest)))
		}
		return err
	default: // a value that is not acknowledged
		m.seq++
		key := mixupKey(m.rng.IntN(mixupKeys))
		value := mixupValue(key, m.id, m.seq)
		return send(fmt.Sprintf("set %s 0 0 %d noreply\r\n%s\r\n", key, len(value), value))
	}
}

// runMixup runs a number of lives of every client, and returns the number of replies checked.
func runMixup(t *testing.T, addr string, seed uint64, lives int, errOK bool) int64 {
	t.Helper()
	var read atomic.Int64
	var wg sync.WaitGroup
	errs := make(chan error, mixupConnections)
	for id := range mixupConnections {
		m := &mixupClient{id: id, addr: addr, rng: rand.New(rand.NewPCG(seed, uint64(id))), errOK: errOK, read: &read}
		wg.Go(func() {
			for range lives {
				if err := m.life(); err != nil {
					errs <- fmt.Errorf("connection %d: %w", m.id, err)
					return
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	return read.Load()
}

func mixupLives() int {
	if mctest.Long() {
		return 10
	}
	return 1
}

// poll waits until condition holds. Unlike require.Eventually it calls it in the test's own goroutine, which must do
// the counting.
func poll(t *testing.T, otherwise string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(mctest.Patience); !condition(); time.Sleep(mctest.Tick) {
		if time.Now().After(deadline) {
			t.Fatalf("after %v %s", mctest.Patience, otherwise)
		}
	}
}

func TestNoReplyHoldsAnotherKeysBytesUnderRandomDisconnects(t *testing.T) {
	seed := mctest.Seed(t)
	for _, p := range topologies {
		for _, pool := range []middleware.Pool{middleware.PoolShared, middleware.PoolPerServer} {
			name := "pool shared"
			if pool == middleware.PoolPerServer {
				if name = "pool per-server"; p.servers == 1 {
					continue
				}
			}
			t.Run(p.name+", "+name, func(t *testing.T) {
				o, _ := p.options(t, middleware.Options{Workers: 4, Pool: pool})
				before := goleak.IgnoreCurrent()
				m := mwtest.Start(t, o)
				goroutines := runtime.NumGoroutine()
				replies := runMixup(t, m.Addr(), seed, mixupLives(), false)
				t.Logf("%d replies checked", replies)
				poll(t, "connections that clients ended stay open",
					func() bool { return m.Stats().Snapshot().Open() == 0 })
				poll(t, "goroutines of ended connections stay",
					func() bool { return runtime.NumGoroutine() <= goroutines })
				require.NoError(t, m.Stop())
				goleak.VerifyNone(t, before)
			})
		}
	}
}

func TestNoReplyHoldsAnotherKeysBytesWhileServersBreakOff(t *testing.T) {
	seed := mctest.Seed(t)
	for _, p := range topologies[:4] {
		t.Run(p.name, func(t *testing.T) {
			o, servers := p.options(t, middleware.Options{
				Workers:        8,
				RequestOptions: worker.RequestOptions{Timeout: 100 * time.Millisecond},
			})
			proxies := make([]*mctest.Proxy, len(servers))
			for i, s := range servers {
				proxies[i] = mctest.StartProxy(t, s.Addr())
				o.Servers[i].Addr = proxies[i].Addr()
			}
			m := mwtest.Start(t, o)
			rng := rand.New(rand.NewPCG(seed, 0))
			stop := make(chan struct{})
			var faults sync.WaitGroup
			injected := 0
			faults.Go(func() {
				for {
					f := mctest.Fault{Cut: 1 + rng.IntN(100_000), Reset: rng.IntN(2) == 0}
					switch rng.IntN(5) {
					case 0:
						f = mctest.Fault{Double: true}
					case 1:
						f = mctest.Fault{Bytewise: true}
					case 2:
						f = mctest.Fault{Stall: true}
					case 3:
						f = mctest.Fault{Refuse: true, Cut: 1}
					}
					p := proxies[rng.IntN(len(proxies))]
					p.Inject(f)
					injected++
					select {
					case <-stop:
						return
					case <-time.After(time.Duration(rng.IntN(10_000)) * time.Microsecond):
					}
					p.Inject(mctest.Fault{})
				}
			})
			replies := runMixup(t, m.Addr(), seed, mixupLives(), true)
			close(stop)
			faults.Wait()
			for _, p := range proxies {
				p.Inject(mctest.Fault{})
			}
			t.Logf("%d replies checked under %d faults", replies, injected)
			c := m.Dial(t)
			poll(t, "the servers are well again, the middleware isn't", func() bool {
				// If the server missed a write of k, k is deleted there, perhaps after this set.
				return c.MustDo(t, "set k 0 0 1\r\nx\r\n") == "STORED\r\n" && c.MustDo(t, "get k\r\n") ==
					"VALUE k 0 1\r\nx\r\nEND\r\n"
			})
		})
	}
}

func TestTheMixUpCheckNoticesForeignAndTornValues(t *testing.T) {
	whole := mixupValue("mix-1", 3, 14)
	require.Greater(t, len(whole), 1000)
	require.NoError(t, checkMixupValue("mix-1", whole))
	for name, value := range map[string]string{
		"another key's":  mixupValue("mix-2", 3, 14),
		"a longer key's": mixupValue("mix-11", 3, 14),
		"cut short":      whole[:len(whole)-1],
		"one byte long":  whole + "x",
		"two writers'":   whole[:500] + mixupValue("mix-1", 4, 14)[500:len(whole)-1],
		"empty":          "",
		"no number":      "mix-1|x|1|",
	} {
		require.Error(t, checkMixupValue("mix-1", value), name)
	}
	// The same in a reply: the server answers with a key that was not requested.
	for _, reply := range []string{
		"VALUE mix-2 0 1\r\nx\r\nEND\r\n", "VALUE mix-1 0 1\r\nx\r\nEND\r\n", "STORED\r\n", "END\r\nx\r\n",
		"SERVER_ERROR x\r\n",
	} {
		s := mctest.StartScript(t, func(p *mctest.Peer) { p.Answer(func(string) string { return reply }) })
		c := mctest.MustDial(t, s.Addr())
		require.NoError(t, c.Send([]byte("get mix-1\r\n")))
		m := &mixupClient{read: new(atomic.Int64)}
		err := m.reply(c, request{text: "get mix-1\r\n", keys: []string{"mix-1"}})
		if reply == "END\r\nx\r\n" {
			require.NoError(t, err) // bytes after END belong to the next reply
			err = m.reply(c, request{text: "get mix-1\r\n", keys: []string{"mix-1"}})
		}
		require.Error(t, err, "%q", reply)
	}
}
