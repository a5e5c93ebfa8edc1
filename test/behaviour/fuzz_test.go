package behaviour_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mcmw/internal/backend"
	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/mctest/strict"
	"mcmw/internal/middleware"
	"mcmw/internal/protocol"
	"mcmw/internal/route"
	"mcmw/internal/stats"
	"mcmw/internal/worker"
)

// fuzzWorkers is the number of workers of the fuzzed middlewares. Idle workers take from the queue in turn, so a client
// that waits for every reply uses each of them within that many requests.
const fuzzWorkers = 2

// flushTakes is the time for which a flush may remove items stored after it.
const flushTakes = 3 * time.Second

// FuzzConnection sends arbitrary bytes of a client, with valid commands among them and in any pieces. It requires that
// the replies are well-formed, that no server connection is lost, and that another client afterwards gets right answers
// on every server connection of every worker.
func FuzzConnection(f *testing.F) {
	servers := mctest.StartMemcacheds(f, 3)
	var targets []*mwtest.MW
	for _, placement := range []route.Options{{}, {Replicas: 1}} {
		targets = append(targets, mwtest.Start(f, middleware.Options{
			Servers: mwtest.Servers(servers...), Placement: placement,
			RequestOptions: worker.RequestOptions{Sharded: true, Depth: 4, Timeout: mctest.Patience},
			Workers:        fuzzWorkers,
			// The test is not about time.
			ServerOptions: backend.ServerOptions{ConnectTimeout: mctest.Patience},
		}))
	}
	for _, seed := range []string{
		"get a\r\n", "set a 0 0 1\r\nx\r\nget a\r\n", "set a 0 0 5\r\n\xff\x03\x01\x02\x03",
		"\xff\x01\xff\x02\xff\x03\xff\x04\xff\x05",
		"get " + strings.Repeat("k ", 300) + "\r\n", "set k 0 0 1048577\r\n", strings.Repeat("x", 3000),
		"\x80\x00\x00\x00", "\x80?\xff\x94\xff\x05",
		"mg a v\r\nms b 2\r\nxx\r\nmn\r\n", "flush_all\r\nflush_all 1 noreply\r\nverbosity 2\r\n",
		"set a 0 0 -1\r\nincr a 1\r\n",
		"gat 0 a b\r\n", "shutdown\r\nquit\r\n", "cas a 0 0 1 1 noreply\r\nx\r\n",
		"\xff\x00get a\r\n\xff\x00\r\n\xff\x02",
	} {
		f.Add(seed, false, false)
	}
	// The binary protocol, after an empty write. The reply contains its opaque, here a line feed, so that it has a line
	// to check.
	f.Add("\xff\x00\x80\x05"+strings.Repeat("\x00", 10)+"\nadd"+strings.Repeat("\x00", 8), false, false)
	f.Add("get a\r\n", true, true)
	f.Add("get a\r\nquit\r\n", true, false)
	generation := 0
	// the time of the last program with a flush, which memcached executes with a resolution of seconds
	var flushed time.Time
	f.Fuzz(func(t *testing.T, program string, reset, sharded bool) {
		m := targets[0]
		if sharded {
			m = targets[1]
		}
		before := serverFailures(m)
		pieces := fuzzPieces(program)
		sent := strings.Join(pieces, "")
		replies := fuzzClient(t, m, pieces, reset)
		if strings.HasPrefix(sent, "\x80") { // the client uses the binary protocol
			const header = 24
			require.True(t, len(replies) == 0 ||
				(len(replies) > header && replies[0] == 0x81 && string(replies[header:]) == "Unknown command"), "%q",
				replies)
		} else {
			requireReplies(t, replies)
		}
		generation++
		if strings.Contains(sent, "flush_all") {
			flushed = time.Now()
		}
		requireCleanClient(t, m, fmt.Sprintf("clean-%d", generation), time.Since(flushed) < flushTakes)
		require.Equal(t, before, serverFailures(m), "a client's bytes must not cost a server connection")
	})
}

// fuzzPieces returns the writes of a client that executes the program. In the program a byte of 255 and the byte after
// it stand for a valid command, or for the end of a write.
func fuzzPieces(program string) []string {
	var pieces []string
	for len(program) > 0 {
		piece, rest, special := strings.Cut(program, "\xff")
		if special && rest != "" {
			piece += fuzzCommand(rest[0])
			rest = rest[1:]
		}
		pieces = append(pieces, piece)
		program = rest
	}
	return pieces
}

// fuzzClient writes the pieces. It returns the bytes received until the middleware closed, or nothing if the client
// resets the connection.
func fuzzClient(t *testing.T, m *mwtest.MW, pieces []string, reset bool) []byte {
	c := m.Dial(t)
	c.Timeout = mctest.Patience
	done := make(chan []byte, 1)
	go func() {
		rest, err := c.Rest()
		if err != nil && !reset {
			t.Errorf("reading what is answered to %q: %v", pieces, err)
		}
		done <- []byte(rest)
	}()
	for _, piece := range pieces {
		if err := c.Send([]byte(piece)); err != nil {
			// The middleware may close as soon as it can't stay in sync, or on request; then the client closes, too.
			require.True(t, errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) ||
				errors.Is(err, net.ErrClosed), "%v", err)
			break
		}
	}
	if reset {
		if err := c.Reset(); !errors.Is(err, net.ErrClosed) {
			require.NoError(t, err)
		}
		<-done
		return nil
	}
	_ = c.CloseWrite() // may be closed already
	return <-done
}

// fuzzCommand is a valid command; some have none.
func fuzzCommand(n byte) string {
	key := fmt.Sprintf("k%d", n/16)
	switch n % 16 {
	case 1:
		return "get " + key + "\r\n"
	case 2:
		return "set " + key + " 1 0 3\r\nabc\r\n"
	case 3:
		return "get k0 k1 k2 k3 k4 k5 k6 k7 " + key + "\r\n"
	case 4:
		return "delete " + key + "\r\n"
	case 5:
		return "add " + key + " 0 0 2 noreply\r\n12\r\n"
	case 6:
		return "incr " + key + " 7\r\n"
	case 7:
		return "gets " + key + " k1\r\n"
	case 8:
		return "ms " + key + " 2 q\r\nhi\r\nmn\r\n"
	case 9:
		return "mg " + key + " k v c\r\n"
	case 10:
		return "set " + key + " 0 0 9000\r\n" + strings.Repeat("v", 9000) + "\r\n"
	case 11:
		return "append " + key + " 0 0 1\r\nx\r\n"
	case 12:
		return "touch " + key + " 0\r\n"
	case 13:
		return "stats\r\n"
	}
	return ""
}

// requireReplies checks that replies are well-formed. A closed connection may have cut the last one.
func requireReplies(t *testing.T, replies []byte) {
	for len(replies) > 0 {
		var r protocol.Reply
		n, _, err := protocol.DecodeReply(replies, &r)
		require.NoError(t, err, "%.200q", replies)
		if n == 0 {
			return
		}
		require.NotEqual(t, protocol.ReplyText, r.Kind, "%.200q", replies[:n])
		replies = replies[n:]
	}
}

// serverFailures returns the number of failures that end a connection to a server.
func serverFailures(m *mwtest.MW) (n uint64) {
	for _, s := range m.Stats().Snapshot().Servers {
		for reason, count := range s.Errors {
			if stats.Reason(reason) != stats.ReasonReply {
				n += count
			}
		}
	}
	return n
}

// requireCleanClient stores and reads its own keys, which are spread over all servers. If a flush can still remove
// them, they may be missing; otherwise it first waits until the last immediate flush has no effect any more.
func requireCleanClient(t *testing.T, m *mwtest.MW, prefix string, flushing bool) {
	c := m.Dial(t)
	defer c.Close()
	c.Timeout = mctest.Patience
	const keys = 8
	for worker := range fuzzWorkers {
		deadline := time.Now().Add(mctest.Patience)
		for try := 0; ; try++ {
			var get, want bytes.Buffer
			get.WriteString("get")
			for i := range keys {
				key := fmt.Sprintf("%s-%d-%d", prefix, worker, i)
				value := fmt.Sprintf("value of %s, try %d", key, try)
				require.Equal(t, "STORED\r\n",
					c.MustDo(t, fmt.Sprintf("set %s %d 0 %d\r\n%s\r\n", key, i, len(value), value)))
				fmt.Fprintf(&get, " %s", key)
				fmt.Fprintf(&want, "VALUE %s %d %d\r\n%s\r\n", key, i, len(value), value)
			}
			reply := c.MustDo(t, get.String()+"\r\n")
			if reply == want.String()+"END\r\n" {
				break
			}
			items, err := mctest.ParseValues(reply)
			require.NoError(t, err)
			for _, item := range items {
				require.Contains(t, want.String(),
					fmt.Sprintf("VALUE %s %s %d\r\n%s\r\n", item.Key, item.Flags, len(item.Value), item.Value))
			}
			require.Less(t, len(items), keys)
			if flushing {
				break
			}
			require.True(t, time.Now().Before(deadline), "keys are still missing: %q", reply)
		}
	}
}

// recorder is a set of servers that record their requests, parsed as the strictest memcached would.
type recorder struct {
	mu       sync.Mutex
	requests map[string]int // line, line end and data -> how often servers got it
	failure  error
}

func (r *recorder) serve(p *mctest.Peer) {
	for {
		q, err := strict.Read(p.Reader())
		if errors.Is(err, io.EOF) {
			return
		}
		r.mu.Lock()
		switch {
		case err != nil:
			r.failure = err
		case q.Name() == "mn" || q.Name() == "version" || len(q.Keys) > 0 && strings.HasPrefix(q.Keys[0], "mcmw "):
			// mcmw also sends these on its own: to detect the end of a reply, to probe a server, and for its records.
		case q.Name()[0] == 'g':
			head := strings.TrimSuffix(q.Line, strings.Join(q.Keys, " "))
			for _, key := range q.Keys { // which can be requested from several servers
				r.requests[head+key+"\n"]++
			}
		default:
			r.requests[q.Line+"\n"+q.Data]++
		}
		r.mu.Unlock()
		if err != nil {
			return
		}
		p.Send(replyTo(&q))
	}
}

// replyTo is the reply of a server that has no items and stores all.
func replyTo(q *strict.Request) string {
	quiet := func(nominal string) string {
		if q.Has('q') {
			return ""
		}
		return nominal
	}
	switch q.Name() {
	case "get", "gets", "gat", "gats":
		return "END\r\n"
	case "set", "add", "replace", "append", "prepend", "cas":
		return "STORED\r\n"
	case "delete", "incr", "decr", "touch":
		return "NOT_FOUND\r\n"
	case "version":
		return "VERSION 1.6.45\r\n"
	case "stats":
		switch q.Line {
		case "stats reset":
			return "RESET\r\n"
		case "stats detail on", "stats detail off":
			return "OK\r\n"
		case "stats detail":
			return "CLIENT_ERROR usage: stats detail on|off|dump\r\n"
		}
		return "STAT uptime 1000\r\nEND\r\n"
	case "mn":
		return "MN\r\n"
	case "mg":
		return quiet("EN\r\n")
	case "ms":
		reply := "HD"
		for _, word := range strings.Split(q.Line, " ")[3:] {
			switch word[0] {
			case 'O':
				reply += " " + word
			case 'k':
				reply += " k" + strings.Split(q.Line, " ")[1]
			}
		}
		return quiet(reply + "\r\n")
	case "md", "ma":
		return "NF\r\n"
	case "me":
		return "EN\r\n"
	}
	return "OK\r\n"
}

// believed returns the requests that mcmw intends to send for program, with n servers that all hold every key. If a
// line is too long unless one read returns all of it, mcmw may close the connection, as memcached may; then least has
// the requests up to there, otherwise it is nil.
func believed(program []byte, n int) (sent, least map[string]int) {
	limits := protocol.Limits{}.WithDefaults()
	sent = map[string]int{}
	note := func(line, data string, times int) {
		if times > 0 {
			sent[line+"\n"+strings.TrimSuffix(data, "\r\n")] += times
		}
	}
	if len(program) > 0 && program[0] == protocol.BinaryRequest {
		return sent, nil
	}
	for len(program) > 0 {
		var r protocol.Request
		if _, _, err := limits.Decode(program[:max(0, bytes.IndexByte(program, '\n'))], &r); err != nil &&
			least == nil {
			least = maps.Clone(sent)
		}
		used, _, err := limits.Decode(program, &r)
		if err != nil || used == 0 || r.Command == protocol.Quit || used+int(r.Skip) > len(program) {
			break
		}
		program = program[used+int(r.Skip):]
		if r.Answer != "" && !r.HasEffect() {
			continue
		}
		written := func(op protocol.Op) string { return strings.TrimSuffix(string(op.Append(nil)), "\r\n") }
		line, data := written(r.Op), string(r.Data)
		without := func(flags string) string {
			op := r.Op
			op.Drop(flags)
			return written(op)
		}
		deletion := func() string { return written(r.Deletion()) }
		switch c := r.Command; {
		case r.Answer == protocol.TextTooLarge:
			note(deletion(), "", n)
		case c.IsRetrieval():
			for key := range strings.SplitSeq(string(r.Keys), " ") {
				if !r.Has(protocol.Writes) {
					note(c.String()+" "+key, "", 1)
					continue
				}
				note(fmt.Sprint(c, " ", r.Expiry, " ", key), "", 1)
				note(fmt.Sprint("touch ", key, " ", r.Expiry), "", n-1)
			}
		case c == protocol.Cas:
			note(line, data, 1)
			note("set"+line[len("cas"):strings.LastIndexByte(line, ' ')], data, n-1)
		case c.IsKeyed(), c == protocol.FlushAll, c == protocol.Verbosity, c == protocol.Stats &&
			r.Has(protocol.Everywhere) && !r.IsOverview():
			note(line, data, n)
		case c == protocol.Admin && n == 1:
			note(line, data, 1)
		case c == protocol.Meta && (n == 1 || !r.Has(protocol.Writes)):
			note(line, data, 1)
		// refused by the first server; if that lacks the key, it is deleted on all
		case c == protocol.Meta && r.Has(protocol.Conditional) && r.Verb != 's' && !r.Has(protocol.Deletes):
			note(without("q"), data, 1)
		case c == protocol.Meta && r.Has(protocol.Conditional|protocol.Marks):
			note(without("q"), data, 1)
			note(deletion(), "", n-1)
		case c == protocol.Meta && r.Has(protocol.Conditional):
			note(without("q"), data, 1)
			note(without("Cq"), data, n-1)
		case c == protocol.Meta:
			note(without("q"), data, n)
		}
	}
	return sent, least
}

// FuzzWhatServersGet sends a client's bytes. It requires that the servers receive the requests that mcmw intends to
// send, as parsed by package strict, which is independent of mcmw and accepts nothing ambiguous.
func FuzzWhatServersGet(f *testing.F) {
	type bench struct {
		*recorder
		m *mwtest.MW
		n int
	}
	var benches []bench
	for _, n := range []int{1, 3} {
		b := bench{&recorder{requests: map[string]int{}}, nil, n}
		var addrs []string
		for range n {
			addrs = append(addrs, mctest.StartScript(f, b.serve).Addr())
		}
		b.m = mwtest.Start(f, middleware.Options{
			Servers: mwtest.Named(addrs...), Workers: 2,
			RequestOptions: worker.RequestOptions{Depth: 4, Timeout: mctest.Patience},
		})
		benches = append(benches, b)
	}
	for _, seed := range []string{
		"set a 0 0 +9\r\nflush_all\r\n", "set a 0 0 4294967305\r\nflush_all\r\n", "set a 0 0 9 \r\nflush_all\r\n",
		"get  a\tb \n", "delete noreply\r\nget a\r\n",
		"cas a\tb 7 0 1 5 noreply\r\nx\r\nget a\r\n", "set k\x00 0 0 1\r\nx\r\n", "set k 0 0 1\r\nxyz\r\n",
		"ms k 2 T0 F9 MSx Ozz q C5\r\nab\r\nmn\r\n",
		"ms aGk= 2 b I C5\r\nab\r\n", "mg aGk= b N30 v q\r\nmn\r\n", "ma k N0 J13 D2 v q\r\n", "md k x q\r\n",
		"md k C5 q\r\n", "md k I C5\r\n", "me aGk= b\r\n", "mg k v v\r\n", "mg k 1\r\n",
		"gat 007 a  b\r\ngats -1 a\r\n", "set k 0 0 1048577\r\n" + strings.Repeat("x", 1048577) + "\r\nget k\r\n",
		"touch k -1\r\nincr k 18446744073709551615\r\n",
		strings.Repeat("x", 100_000) + "\r\nget k\r\n", "flush_all 5 noreply\r\nverbosity 1\r\n",
		"stats items\r\nstats detail o\r\nstats cachedump 1 1\r\n", "lru_crawler m all\r\nslabs automove 1\r\n",
		"get " + strings.Repeat("k ", 3000) + "\r\n", "get a " + strings.Repeat("k", 251) + " b\r\n",
		"ms k 1 " + strings.Repeat("v ", 20) + "\r\nx\r\n",
		" 5 no\nget a\nx\r\nget a\r\n",
	} {
		f.Add([]byte(seed), false)
		f.Add([]byte(seed), true)
	}
	f.Fuzz(func(t *testing.T, program []byte, replicated bool) {
		b := benches[0]
		if replicated {
			b = benches[1]
		}
		b.take()
		c := b.m.Dial(t)
		defer c.Close()
		go func() {
			_ = c.Send(program) // may be closed already
			_ = c.CloseWrite()
		}()
		_, err := c.Rest()
		require.NoError(t, err)
		got, failure := b.take()
		require.NoError(t, failure)
		delete(got, "stats\n") // sent by probes, too
		want, least := believed(program, b.n)
		// Gets of one key in the same round are sent once.
		for request, times := range want {
			if strings.HasPrefix(request, "get ") && got[request] > 0 {
				got[request] = max(got[request], times)
			}
		}
		if least == nil {
			require.Equal(t, want, got, fmt.Sprintf("%d servers, %.1000q", b.n, program))
			return
		}
		for request, n := range got {
			require.LessOrEqual(t, n, want[request], "%d servers, %.1000q, %.1000q", b.n, program, request)
		}
		for request, n := range least {
			require.GreaterOrEqual(t, got[request], n, "%d servers, %.1000q, %.1000q", b.n, program, request)
		}
	})
}

// take returns the recorded requests and forgets them.
func (r *recorder) take() (map[string]int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	requests, failure := r.requests, r.failure
	r.requests, r.failure = map[string]int{}, nil
	return requests, failure
}
