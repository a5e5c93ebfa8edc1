package behaviour_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/mctest/strict"
	"mcmw/internal/middleware"
	"mcmw/internal/protocol"
	"mcmw/internal/worker"
)

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
