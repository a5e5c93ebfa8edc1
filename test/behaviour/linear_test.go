package behaviour_test

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
	"mcmw/internal/route"
	"mcmw/internal/worker"
)

// historyKeys is the number of keys of a history. It is small, so that clients often use the same key.
const historyKeys = 2

// planned is a request to be sent by a client.
type planned struct {
	kind  string
	key   int
	quiet bool // noreply, or q with meta commands; only if kind allows it
}

func (p planned) String() string {
	if p.quiet {
		return fmt.Sprintf("%s(%d) quiet", p.kind, p.key)
	}
	return fmt.Sprintf("%s(%d)", p.kind, p.key)
}

// requestKinds are the kinds of requests, with whether they can be quiet.
var requestKinds = map[string]bool{
	"get": false, "gets": false, "multi-get": false, "gat": false, "mg": false, "mg c": false,
	"set": true, "add": true, "replace": true, "append": true, "prepend": true, "cas": true, "delete": true,
	"incr": true, "decr": true,
	"ms": true, "ms c": false, "ms add": true, "ms replace": true, "ms append": true, "ms C": true,
	"md": true, "md C": true, "ma": true, "ma N": true, "ma C": true,
}

// requests generates one request.
func requests() *rapid.Generator[planned] {
	var kinds []string
	for kind := range requestKinds {
		kinds = append(kinds, kind)
	}
	slices.Sort(kinds)
	return rapid.Custom(func(t *rapid.T) planned {
		kind := rapid.SampledFrom(kinds).Draw(t, "kind")
		p := planned{kind: kind, key: rapid.IntRange(0, historyKeys-1).Draw(t, "key")}
		if requestKinds[kind] {
			p.quiet = rapid.IntRange(0, 4).Draw(t, "quiet") == 4
		}
		return p
	})
}

// historian is one client of a history.
type historian struct {
	number  int
	client  *mctest.Client
	batches [][]planned
	keys    []string
	tokens  []string // by key: the last cas seen
	clock   *atomic.Int64
	serial  *atomic.Int64 // numbers the written values

	made [][]*operation // by key
	err  error
}

// noToken is a cas that no item has.
const noToken = "18446744073709551614"

// run sends the batches one after the other, each as one piece, and records the replies.
func (h *historian) run() {
	h.tokens = slices.Repeat([]string{noToken}, len(h.keys))
	h.made = make([][]*operation, len(h.keys))
	for _, batch := range h.batches {
		var text strings.Builder
		var pending []*sentRequest
		for _, p := range batch {
			r := h.compose(p)
			text.WriteString(r.text)
			pending = append(pending, r)
		}
		invoked := h.clock.Add(1)
		for _, r := range pending {
			for _, op := range r.operations {
				op.operation.invoked, op.operation.returned = invoked, never
				h.made[op.key] = append(h.made[op.key], op.operation)
			}
		}
		if h.err = h.client.Send([]byte(text.String())); h.err != nil {
			return
		}
		for _, r := range pending {
			if h.err = h.receive(r); h.err != nil {
				return
			}
		}
	}
}

// sentRequest is a request with its operations, one per key.
type sentRequest struct {
	text       string
	operations []keyedOperation
	// replies is the number of replies: 0 for noreply. With quiet, it is the number before that of the mn.
	replies int
	quiet   bool
}

type keyedOperation struct {
	key int
	*operation
}

// receive reads the replies to r.
func (h *historian) receive(r *sentRequest) error {
	var reply string
	for n := 0; n < r.replies || r.quiet; n++ {
		text, err := h.client.Reply()
		if err != nil {
			return fmt.Errorf("after %q: %w", r.text, err)
		}
		if text == "MN\r\n" {
			break
		}
		reply += text
	}
	if r.replies == 0 && !r.quiet {
		return nil
	}
	returned := h.clock.Add(1)
	for _, op := range r.operations {
		op.returned, op.reply = returned, reply
		if reply == "" {
			continue // quiet: executed, or refused without a reply
		}
		answer, err := resultOf(op.operation, h.keys[op.key], reply)
		if err != nil {
			return fmt.Errorf("%q was answered %q: %w", r.text, reply, err)
		}
		op.result = answer
		if answer.token != "" {
			h.tokens[op.key] = answer.token
		}
	}
	return nil
}

// compose returns the request for p.
func (h *historian) compose(p planned) *sentRequest {
	key, token, serial := h.keys[p.key], h.tokens[p.key], h.serial.Add(1)
	op := &operation{client: h.number, verb: p.kind, flags: "0"}
	meta := false
	r := &sentRequest{operations: []keyedOperation{{p.key, op}}, replies: 1}
	// All numbers have eight digits, because memcached pads a number that gets shorter.
	number, text := fmt.Sprint(20_000_000+serial*1000), fmt.Sprintf("<%d>", serial)
	store := func(format string) {
		op.flags = fmt.Sprint(serial)
		if op.value == "" {
			op.value = number
		}
		r.text = fmt.Sprintf(format, key, op.flags, len(op.value)) + "%s\r\n" + op.value + "\r\n"
	}
	metaStore := func(mode string) {
		op.flags = fmt.Sprint(serial)
		if op.value == "" {
			op.value = number
		}
		r.text = fmt.Sprintf("ms %s %d F%s %s", key, len(op.value), op.flags, mode) + "%s\r\n" + op.value + "\r\n"
		meta = true
	}
	if serial%3 == 0 || strings.HasSuffix(p.kind, "append") || strings.HasSuffix(p.kind, "prepend") {
		op.value = text
	}
	switch p.kind {
	case "get", "gets", "gat":
		op.verb = "get"
		r.text = p.kind + " " + key + "\r\n"
		if p.kind == "gat" {
			r.text = "gat 0 " + key + "\r\n"
		}
	case "multi-get":
		op.verb = "get"
		r.text = "get"
		r.operations = nil
		for k, key := range h.keys {
			r.text += " " + key
			r.operations = append(r.operations, keyedOperation{k, &operation{client: h.number, verb: "get"}})
		}
		r.text += "\r\n"
	case "mg":
		op.verb = "get"
		r.text = "mg " + key + " v f\r\n"
	case "mg c":
		op.verb = "get"
		r.text = "mg " + key + " v f c\r\n"
	case "set", "add", "replace", "append", "prepend":
		store(p.kind + " %s %s 0 %d")
	case "cas":
		op.token = token
		store("cas %s %s 0 %d " + token)
	case "delete":
		r.text = "delete " + key + "%s\r\n"
	case "incr", "decr":
		op.delta = 1
		r.text = p.kind + " " + key + " 1%s\r\n"
	case "ms":
		op.verb = "set"
		metaStore("MS")
	case "ms c":
		op.verb = "set"
		metaStore("c")
	case "ms add":
		op.verb = "add"
		metaStore("ME")
	case "ms replace":
		op.verb = "replace"
		metaStore("MR")
	case "ms append":
		op.verb = "append"
		metaStore("MA")
	case "ms C":
		op.verb, op.token = "cas", token
		metaStore("C" + token)
	case "md":
		op.verb, meta = "delete", true
		r.text = "md " + key + "%s\r\n"
	case "md C":
		op.verb, op.token, meta = "delete", token, true
		r.text = "md " + key + " C" + token + "%s\r\n"
	case "ma":
		op.verb, op.delta, meta = "incr", 2, true
		r.text = "ma " + key + " D2 v c%s\r\n"
	case "ma N":
		op.verb, op.delta, op.made, op.value, meta = "incr", 3, true, number, true
		r.text = "ma " + key + " N0 J" + number + " D3 v%s\r\n"
	case "ma C":
		op.verb, op.delta, op.token, meta = "decr", 1, token, true
		r.text = "ma " + key + " MD v C" + token + "%s\r\n"
	}
	h.silence(r, p.quiet, meta)
	for _, op := range r.operations {
		op.request = r.text
	}
	return r
}

// silence adds the word that suppresses the reply to the line of r, if quiet.
func (h *historian) silence(r *sentRequest, quiet, meta bool) {
	word := ""
	switch {
	case quiet && meta:
		word = " q"
		r.quiet = true
	case quiet:
		word = " noreply"
		r.replies = 0
	}
	if strings.Contains(r.text, "%s") {
		r.text = fmt.Sprintf(r.text, word)
	}
	if r.quiet {
		r.text += "mn\r\n"
	}
}

// resultOf parses the reply to op on key.
func resultOf(op *operation, key, reply string) (result, error) {
	line, rest, _ := strings.Cut(reply, "\r\n")
	words := strings.Fields(line)
	switch words[0] {
	case "STORED", "NOT_STORED", "EXISTS", "NOT_FOUND", "DELETED":
		return result{word: words[0]}, nil
	case "CLIENT_ERROR":
		if strings.HasSuffix(line, "non-numeric value") {
			return result{word: "NON_NUMERIC"}, nil
		}
	case "VALUE", "END":
		items, err := mctest.ParseValues(reply)
		for _, it := range items {
			if it.Key == key {
				return result{word: "VALUE", value: it.Value, flags: it.Flags, token: it.Cas}, err
			}
		}
		return result{word: "END"}, err
	case "HD", "VA", "EN", "NS", "EX", "NF":
		return metaResult(op, words, strings.TrimSuffix(rest, "\r\n")), nil
	}
	if op.verb == "incr" || op.verb == "decr" {
		var n uint64
		_, err := fmt.Sscan(line, &n)
		return result{word: "NUMBER", value: fmt.Sprint(n)}, err
	}
	return result{}, fmt.Errorf("no answer to %s", op.verb)
}

// metaResult returns a meta reply in the words of the classic protocol.
func metaResult(op *operation, words []string, value string) result {
	r := result{word: map[string]string{
		"EN": "END", "NS": "NOT_STORED", "EX": "EXISTS", "NF": "NOT_FOUND",
		"HD": "STORED",
	}[words[0]]}
	switch {
	case words[0] == "HD" && op.verb == "delete":
		r.word = "DELETED"
	case words[0] == "VA" && op.verb == "get":
		r.word, r.value = "VALUE", value
	case words[0] == "VA":
		r.word, r.value = "NUMBER", value
	}
	for _, word := range words[1:] {
		switch word[0] {
		case 'f':
			r.flags = word[1:]
		case 'c':
			r.token = word[1:]
		}
	}
	return r
}

// historyBench is the environment of histories: servers, which stay, and counters for keys and values.
type historyBench struct {
	servers []route.Server
	clock   atomic.Int64
	serial  atomic.Int64
	keys    []string // the keys of all histories, deleted before each; nil: each history has its own
}

// record lets clients execute their batches on b's keys or new ones, each through one of the fleet, and returns each
// key's operations. The last ones are reads from all of its servers or, with several middlewares, which compare the
// servers later, from its first server.
func (b *historyBench) record(t *testing.T, fleet []*mwtest.MW, router *route.Router,
	batches [][][]planned,
) (keys []string, history [][]*operation, err error) {
	t.Helper()
	for _, key := range b.keys {
		keys = append(keys, key)
		fleet[0].Dial(t).MustDo(t, "delete "+key+"\r\n")
	}
	for len(keys) < historyKeys {
		keys = append(keys, fmt.Sprintf("%d-key", b.serial.Add(1)))
	}
	history = make([][]*operation, historyKeys)
	var wg sync.WaitGroup
	clients := make([]*historian, len(batches))
	for i := range batches {
		c, err := mctest.Dial(fleet[i%len(fleet)].Addr())
		require.NoError(t, err)
		defer c.Close()
		clients[i] = &historian{
			number: i, client: c, batches: batches[i], keys: keys, clock: &b.clock,
			serial: &b.serial,
		}
	}
	start := newBarrier(len(clients))
	for _, h := range clients {
		wg.Go(func() {
			start.await()
			h.run()
		})
	}
	wg.Wait()
	for _, h := range clients {
		if h.err == nil {
			// A reply shows that earlier requests without replies have been executed.
			_, h.err = h.client.Do("mn\r\n")
		}
		if h.err != nil {
			return nil, nil, fmt.Errorf("client %d: %w", h.number, h.err)
		}
		for k := range keys {
			history[k] = append(history[k], h.made[k]...)
		}
	}
	for k, key := range keys {
		servers := router.Replicas([]byte(key), nil)
		if len(fleet) > 1 {
			servers = servers[:1]
		}
		for _, s := range servers {
			c, err := mctest.Dial(b.servers[s].Addr)
			require.NoError(t, err)
			op := &operation{
				client: len(clients), invoked: b.clock.Add(1), returned: b.clock.Add(1), verb: "get",
				request: "get, directly from " + b.servers[s].Name,
			}
			op.reply, err = c.Do("get " + key + "\r\n")
			require.NoError(t, err)
			c.Close()
			op.result, err = resultOf(op, key, op.reply)
			require.NoError(t, err)
			history[k] = append(history[k], op)
		}
	}
	return keys, history, nil
}

// testLinearizable runs random requests of clients through a number of middlewares in front of the same servers, and
// checks the histories. batch is the maximum number of requests that a client sends together.
func testLinearizable(t *testing.T, middlewares, batch int) {
	checks := "15"
	switch several := middlewares > 1; {
	case several && mctest.Long():
		checks = "1000"
	case several:
		checks = "5" // starting them takes longer
	case mctest.Long():
		checks = "300"
	}
	require.NoError(t, flag.Set("rapid.checks", checks))
	require.NoError(t, flag.Set("rapid.nofailfile", "true"))
	start, read := mctest.StartMemcacheds, route.ReadRoundRobin
	if middlewares > 1 {
		start, read = mctest.StartNewMemcacheds, route.ReadPrimary
	}
	servers := start(t, 3)
	b := &historyBench{servers: mwtest.Servers(servers...)}
	histories := 0
	rapid.Check(t, func(r *rapid.T) {
		o := middleware.Options{
			Servers:   b.servers,
			Placement: route.Options{Read: read, Replicas: rapid.IntRange(2, 3).Draw(r, "replicas")},
			// With the second value of StallAfter, servers that are merely busy become suspect.
			RequestOptions: worker.RequestOptions{
				Sharded: rapid.Bool().Draw(r, "sharded"),
				Depth:   rapid.SampledFrom([]int{1, 2, 32}).Draw(r, "depth"),
				StallAfter: rapid.SampledFrom([]time.Duration{middleware.DefaultStallAfter, hasty / 4}).
					Draw(r, "stall after"), Timeout: mctest.Patience,
			},
			WorkerPool: rapid.SampledFrom([]middleware.WorkerPool{
				middleware.WorkersShared, middleware.WorkersPerServer,
			}).Draw(r, "pool"),
			Workers: rapid.IntRange(1, 8).Draw(r, "workers"),
		}
		if middlewares > 1 {
			// The promise is for servers that all middlewares see up; reads skip a server that stalls.
			o.Writers, o.Ready, o.StallAfter = middleware.WritersSeveral, middleware.ReadyAll, -1
		}
		batches := rapid.SliceOfN(rapid.SliceOfN(rapid.SliceOfN(requests(), 1, batch), 1, 6), max(2, middlewares), 4).
			Draw(r, "clients")
		router, err := route.New(o.Servers, o.Placement)
		require.NoError(r, err)
		var fleet []*mwtest.MW
		stop := func() {
			for _, m := range fleet {
				require.NoError(r, m.Stop())
			}
		}
		defer stop()
		for range middlewares {
			fleet = append(fleet, mwtest.Start(t, o))
		}
		var all []string
		// The result also depends on the scheduler, so every plan runs several times.
		for range 10 {
			keys, history, err := b.record(t, fleet, router, batches)
			require.NoError(r, err)
			histories++
			all = append(all, keys...)
			for k, key := range keys {
				if !linearizable(history[k], middlewares > 1) {
					r.Fatalf("the answers for %s have no sequential order:\n%s", key, describe(history[k]))
				}
			}
		}
		if middlewares > 1 {
			stop() // checks must finish before a middleware ends
			lines, _ := disagreeing(t, servers, all)
			require.Empty(r, lines)
			return
		}
		for _, s := range fleet[0].Stats().Snapshot().Servers {
			require.Zero(r, s.Repairs, "no server failed, nothing was evicted, and yet %s disagreed with another",
				s.Name)
		}
	})
	t.Logf("%d histories of %d keys", histories, historyKeys)
}

func TestAnswersForAKeyAreLinearizableOverReplicas(t *testing.T) { testLinearizable(t, 1, 1) }

func TestAnswersToPipelinedRequestsForAKeyAreLinearizableOverReplicas(t *testing.T) {
	testLinearizable(t, 1, 4)
}

func TestAnswersForAKeyAreLinearizableBehindThreeMiddlewares(t *testing.T) { testLinearizable(t, 3, 2) }

// An add that finds the key evicted on one replica is repaired. A conditional write after it, in the same batch, is
// copied to the other replicas in the same pass.
func TestARepairAndAConditionalWriteOfOneRoundLeaveReplicasEqual(t *testing.T) {
	servers := mwtest.Servers(mctest.StartMemcacheds(t, 3)...)
	router, err := route.New(servers, route.Options{})
	require.NoError(t, err)
	m := mwtest.Start(t, middleware.Options{Servers: servers, Workers: 1})
	c := m.Dial(t)
	// The server whose replies are read first changes with every round, so there are several rounds.
	for i := range 12 {
		for _, conditional := range []string{
			"cas %s 0 0 1 %s\r\ny\r\n", "ms %s 1 C%s\r\ny\r\n", "ma %s C%s\r\n",
			"md %s C%s\r\n",
		} {
			key := fmt.Sprintf("%d-%.2s", i, conditional)
			c.MustDo(t, "set "+key+" 0 0 1\r\n5\r\n")
			items, err := mctest.ParseValues(c.MustDo(t, "gets "+key+"\r\n"))
			require.NoError(t, err)
			evicted := servers[router.Replicas([]byte(key), nil)[1+i%2]]
			mctest.MustDial(t, evicted.Addr).MustDo(t, "delete "+key+"\r\n")
			require.NoError(t, c.Send([]byte("add "+key+" 0 0 1\r\nx\r\n"+fmt.Sprintf(conditional, key, items[0].Cas))))
			c.MustReply(t)
			c.MustReply(t)
			lines, _ := differing(t, servers, route.Options{}, []string{key})
			assert.Empty(t, lines, conditional)
		}
	}
}
