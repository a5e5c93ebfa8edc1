package behaviour_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
	"mcmw/internal/worker"
)

// referenceArgs make memcached deterministic: one thread; memory for everything that scripts store; and no thread that
// holds references to items, which would change whether incr and decr write in place.
var referenceArgs = []string{"-t", "1", "-m", "1024", "-o", "no_lru_maintainer"}

// patience is the maximum time for replies. Only scripts that leave a connection waiting take so long.
const patience = 3 * time.Second

// scriptLength is the number of steps of a generated script.
const scriptLength = 40

// runDifferential compares until a number of steps, commands, have run. It stops at the first difference and returns a
// report of it, reduced; the text is "" if there was none.
func runDifferential(t *testing.T, p *pair, seed uint64, stream, streams, commands int) (text string, minimal []step) {
	t.Helper()
	malformed := p.direct.readsStrictly(t)
	done, waiting := 0, 0
	for n := stream; done < commands; n += streams {
		steps := newGenerator(seed, n, malformed).script(scriptLength)
		d := delivery(n / streams % int(numDeliveries))
		diff, err := p.compare(steps, d, uint64(n))
		require.NoError(t, err)
		if diff != nil {
			minimal, diff, d = p.minimise(steps, diff, d, uint64(n))
			return fmt.Sprintf("script %d of seed %d: %s", n, seed, report(minimal, d, diff)), minimal
		}
		done += len(steps)
		if len(steps) > 0 && p.stalled {
			waiting++
		}
	}
	t.Logf("%d commands compared; %d scripts left a connection waiting", done, waiting)
	return "", nil
}

func directTarget(t *testing.T, args ...string) *target {
	t.Helper()
	return &target{addr: mctest.StartMemcached(t, args...).Addr(), patience: patience}
}

// firstStrict is the first release of memcached with a new parser, whose rules for malformed lines mcmw follows.
const firstStrict = 40

// readsStrictly reports whether the target is a memcached with that parser.
func (t *target) readsStrictly(tb testing.TB) bool {
	tb.Helper()
	version := mctest.MustDial(tb, t.addr).MustDo(tb, "version\r\n")
	var patch int
	_, err := fmt.Sscanf(version, "VERSION 1.6.%d", &patch)
	require.NoError(tb, err)
	return patch >= firstStrict
}

// memcacheds runs a test with the memcached in PATH and with a newer one.
func memcacheds(t *testing.T, test func(t *testing.T, start func(testing.TB, ...string) *mctest.Server)) {
	t.Run("memcached", func(t *testing.T) { test(t, mctest.StartMemcached) })
	t.Run("newer memcached", func(t *testing.T) { test(t, mctest.StartNewMemcached) })
}

func TestTheDifferentialFindsNoDifferenceBetweenTwoMemcacheds(t *testing.T) {
	seed := mctest.Seed(t)
	p := &pair{direct: directTarget(t, referenceArgs...), tcp: directTarget(t, referenceArgs...)}
	commands := 3000
	if mctest.Long() {
		commands = 20_000
	}
	text, _ := runDifferential(t, p, seed, 0, 1, commands)
	require.Empty(t, text)
}

func TestTheDifferentialReducesADifferenceToTheCommandThatShowsIt(t *testing.T) {
	// This memcached refuses flush_all.
	p := &pair{
		direct: directTarget(t, referenceArgs...),
		tcp:    directTarget(t, append([]string{"-F"}, referenceArgs...)...),
	}
	// With this seed the first script with a difference has a flush_all with a reply. One with noreply would show only
	// as a value that still exists, and need the commands that store and fetch it.
	const seed = 1
	text, minimal := runDifferential(t, p, seed, 0, 1, 10_000)
	require.Contains(t, text, "flush_all not allowed")
	require.Len(t, minimal, 1, "%s", text)
}

func TestRepliesEqualMemcachedsByteForByte(t *testing.T) { memcacheds(t, testRepliesEqual) }

func testRepliesEqual(t *testing.T, start func(testing.TB, ...string) *mctest.Server) {
	seed := mctest.Seed(t)
	commands := 2400
	if mctest.Long() {
		commands = 100_000
	}
	settings := []struct {
		name           string
		workers, depth int
		sharded        bool
	}{
		{"4 workers, depth 32", 4, 32, false},
		{"1 worker, depth 1", 1, 1, false},
		{"64 workers, depth 2, sharded", 64, 2, true},
	}
	for i, s := range settings {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			m := mwtest.Start(t, middleware.Options{
				Listen:  []string{"127.0.0.1:0", "unix:" + filepath.Join(t.TempDir(), "mcmw")},
				Servers: mwtest.Servers(start(t, referenceArgs...)), Workers: s.workers,
				RequestOptions: worker.RequestOptions{Depth: s.depth, Sharded: s.sharded},
			})
			p := &pair{
				direct: &target{addr: start(t, referenceArgs...).Addr(), patience: patience},
				tcp:    &target{addr: m.AddrOf(0), patience: patience},
				unix:   &target{addr: m.AddrOf(1), patience: patience, readsSeen: true},
			}
			text, _ := runDifferential(t, p, seed, i, len(settings), commands/len(settings)+1)
			require.Empty(t, text)
		})
	}
}

func TestARequestMayBeCutAtAnyByte(t *testing.T) { memcacheds(t, testCutAtAnyByte) }

func testCutAtAnyByte(t *testing.T, start func(testing.TB, ...string) *mctest.Server) {
	const script = "set a 5 0 6\r\nx\r\ny\r\n\r\nget a b a\r\n" +
		"set b 0 0 3 noreply\r\nnop\r\nappend b 0 0 2\r\n\r\n\r\ngets b a\r\nset bad 0 0 3\r\nvwxyzget  a " +
		"\r\nnonsense\r\n" +
		"incr a 1\r\nset n 0 0 1\n7\r\nincr n 3\ndecr n 1 noreply\r\nget n\r\ntouch n 0\r\ndelete n\r\ndelete n " +
		"noreply\r\n" +
		"cas a 0 0 1 18446744073709551615\r\nz\r\nverbosity 0\r\nmg a v f O1\r\nms a 2 c\r\nhi\r\nmn\r\ngat 0 a " +
		"b\r\nget a\r\nquit\r\n"
	direct := start(t, referenceArgs...)
	m := mwtest.Start(t, middleware.Options{
		Listen:  []string{"unix:" + filepath.Join(t.TempDir(), "mcmw")},
		Servers: mwtest.Servers(start(t, referenceArgs...)), Workers: 4,
	})
	answer := func(addr string, parts ...string) []byte {
		c := mctest.MustDial(t, addr)
		defer c.Close()
		for _, part := range parts {
			require.NoError(t, c.Send([]byte(part)))
			if len(parts) > 1 {
				require.NoError(t, mctest.AwaitRead(c.Conn, mctest.Patience))
			}
		}
		rest, err := c.Rest()
		require.NoError(t, err)
		return []byte(rest)
	}
	const clean = "delete a noreply\r\ndelete b noreply\r\ndelete n noreply\r\n"
	for at := range len(script) {
		want := answer(direct.Addr(), clean+script)
		got := answer(m.Addr(), clean+script[:at], script[at:])
		require.Empty(t, compareReplies(want, got, newCasIDs()), "cut between %q and %q", script[:at], script[at:])
	}
}

// generator generates scripts of commands of the whole text protocol. Most commands are valid; in malformed scripts
// many are broken. Versions of memcached before 1.6.40 answer malformed commands differently from later ones, whose
// rules mcmw follows.
//
// Some of memcached's answers depend on time or on how bytes happen to arrive, so that two runs of memcached itself can
// differ. Scripts therefore leave out:
//   - a retrieval with an overlong key: memcached drops replies that are not flushed yet, and newer versions answer one
//     line too many;
//   - quit pipelined after other requests: requests after it reach a closed socket, and the reset that this causes can
//     destroy replies in flight (TestARequestMayBeCutAtAnyByte ends a pipeline with quit);
//   - lines of more than 2,048 bytes in several pieces: the limit holds only while no line end has been read;
//   - times to live of 1 s to 1,000 s, and a delayed flush_all after an immediate one (it revives what no thread has
//     reclaimed yet);
//   - arithmetic pipelined after a retrieval of the same key: it writes in place, padding a shorter number with spaces,
//     only while no unsent reply refers to the item;
//   - more than 2,048 bytes without a line end within values: after a wrong length they are read as lines, and the
//     limit for these holds only while no line end has been read;
//   - arithmetic on values that are only white space: strtoull reads beyond them, whatever is in memory there; and on
//     numbers of 2^63 and more, after which it looks for a minus sign in the same way;
//   - lru_crawler crawl, enable and disable, slabs reassign: the answer depends on what another thread is doing;
//   - extstore and refresh_certs: whether they exist depends on how memcached was built.
//
// Left out because mcmw is stricter than the newest memcached, or refuses commands that it can't forward: zero bytes in
// lines; flags that only strtol reads, and such exptimes, but for those of storage commands without white space; a
// minus sign without a number or with zeros; watch, stats cachedump, lru_crawler metadump and mgdump; words of
// administration commands cut short; keys that only memcached's base64 decoder reads; opaque flags that are too long in
// a command that is executed nevertheless; more than 19 words in a meta command; me with one b, which is ignored.
type generator struct {
	rng       *rand.Rand
	keys      []string
	prefix    string // of all keys
	largest   int    // the size of the largest values, bytes; 0: a little more than memcached stores
	malformed bool
	flushed   bool            // an immediate flush_all is in the script
	fetched   map[string]bool // keys that were retrieved since the last barrier
}

// scriptKeys are the keys of all scripts. Each script first deletes them.
var scriptKeys = []string{
	"a", "b", "key:3", "k\x01\xff\x80", "tab\tkey", strings.Repeat("L", 250), "0", "noreply",
	"n1", "n2", "YmFzZTY0", // n1 and n2 are mostly numbers; the last is base64 as well
}

// withPrefix returns a key of at most memcached's 250 bytes.
func withPrefix(prefix, key string) string { return prefix + key[:min(len(key), 250-len(prefix))] }

// keysOf returns scriptKeys with a prefix.
func keysOf(prefix string) (keys []string) {
	for _, key := range scriptKeys {
		keys = append(keys, withPrefix(prefix, key))
	}
	return keys
}

func newGenerator(seed uint64, n int, malformed bool) *generator {
	return &generator{
		rng: rand.New(rand.NewPCG(seed, uint64(n))), keys: scriptKeys, malformed: malformed,
		fetched: map[string]bool{},
	}
}

// script returns about n steps.
func (g *generator) script(n int) []step {
	var steps []step
	for len(steps) < n {
		s := g.step()
		if g.oddly(12) {
			s = g.mutate(s)
		}
		if s.isLeftOut() {
			continue
		}
		if g.rng.IntN(15) == 0 {
			s.barrier = true
		}
		g.separateArithmetic(&s)
		steps = append(steps, s)
		if s.effect().wants > ends {
			break
		}
	}
	return steps
}

// separateArithmetic puts a barrier before arithmetic on a key that may have been retrieved since the last one.
func (g *generator) separateArithmetic(s *step) {
	command := ""
	if w := words(strings.TrimRight(s.line, "\r\n")); len(w) > 0 {
		command = w[0]
	}
	named := func(key string) bool { return strings.Contains(s.line, key) }
	switch command {
	case "incr", "decr", "ma":
		for key := range g.fetched {
			s.barrier = s.barrier || named(key)
		}
	}
	if s.barrier {
		clear(g.fetched)
	}
	switch command {
	case "get", "gets", "bget", "gat", "gats", "mg":
		for _, key := range g.keys {
			if named(key) {
				g.fetched[key] = true
			}
		}
	}
}

func (g *generator) one(choices ...string) string { return choices[g.rng.IntN(len(choices))] }

// rarely is true once in n times.
func (g *generator) rarely(n int) bool { return g.rng.IntN(n) == 0 }

// oddly is rarely in malformed scripts, otherwise false.
func (g *generator) oddly(n int) bool { return g.malformed && g.rarely(n) }

func (g *generator) key() string {
	if !g.malformed && g.rarely(80) {
		return withPrefix(g.prefix, g.one("missing", strings.Repeat("M", 249)))
	}
	if g.oddly(40) {
		return g.one(strings.Repeat("M", 251), strings.Repeat("M", 260), "missing", strings.Repeat("M", 249))
	}
	return g.keys[g.rng.IntN(len(g.keys))]
}

func (g *generator) eol() string {
	if g.rarely(12) {
		return g.one("\n", " \r\n", "  \n")
	}
	if g.oddly(20) {
		return g.one("\r\r\n", "\t\r\n")
	}
	return "\r\n"
}

func (g *generator) step() step {
	switch p := g.rng.IntN(100); {
	case p < 26:
		return g.retrieval()
	case p < 58:
		return g.storage()
	case p < 64:
		return g.arithmetic()
	case p < 69:
		if g.malformed {
			return g.line("delete "+g.key(), g.one("", "", "", " 0", " 0", " 5", " x", " 0 0", " 0 x"))
		}
		return g.line("delete "+strings.ReplaceAll(g.key(), "noreply", "b"), g.one("", "", "", " 0"))
	case p < 74:
		return g.line("touch "+g.key()+" "+g.exptime(), "")
	case p < 85:
		return g.metaCommand()
	case p < 88:
		return g.flushAll()
	case p < 92:
		return g.control()
	case !g.malformed:
		return g.retrieval()
	default:
		return g.garbage()
	}
}

// line completes a command without data. It sometimes adds noreply, in malformed scripts even to commands that do not
// know it.
func (g *generator) line(text, more string) step {
	text += more
	command, _, _ := strings.Cut(text, " ")
	if g.rarely(5) && (g.malformed || strings.Contains("delete touch incr decr flush_all verbosity", command)) {
		text += " noreply"
	}
	if g.oddly(25) {
		text += g.one(" x", " 0", " noreply noreply", " no reply", "noreply", " NOREPLY")
	}
	return step{line: text + g.eol()}
}

func (g *generator) exptime() string {
	if g.oddly(6) {
		return g.one("x", "1x", "1.5", "0x10", "9223372036854775808", "-9223372036854775809", "18446744073709551616",
			"--1", "noreply", "''")
	}
	return g.one("0", "0", "0", "100000", "2592000", "2592001", "-1", "-100", "2147483647", "-2147483648", "00",
		"00100000")
}

func (g *generator) retrieval() step {
	command := g.one("get", "get", "get", "gets", "gets", "gat", "gats")
	if g.oddly(40) {
		command = "bget"
	}
	text := command
	if strings.HasPrefix(command, "gat") {
		text += " " + g.exptime()
	}
	n := 1 + g.rng.IntN(6)
	switch {
	case g.oddly(30):
		n = 0
	case g.rarely(30):
		n = 18 + g.rng.IntN(12) // memcached splits a line 23 words at a time
	case g.rarely(120) && (command == "get" || command == "gets"):
		n = 200 + g.rng.IntN(400) // longer than the limit for lines of other commands
	}
	size := len(text)
	for range n {
		key := g.key()
		if size+len(key) > maxLine-40 && n < 200 {
			break
		}
		size += len(key) + 1
		text += " " + key
	}
	return step{line: text + g.eol()}
}

func (g *generator) storage() step {
	command := g.one("set", "set", "set", "set", "add", "replace", "append", "prepend", "cas", "cas")
	key := g.key()
	flags, exptime := g.one("0", "0", "7", "4294967295"), "0"
	// Commands that memcached may refuse before it reads the data have little data: it is then read as command lines,
	// and those have a limit.
	odd := len(key) > 250
	if g.rarely(3) {
		exptime, odd = g.exptime(), true
		if g.rarely(3) { // all memcacheds cut it to 32 bits
			exptime = g.one("2147483648", "3294967297", "4294967295", "4294967296", "4295067296", "9223372036854775807",
				"-2147483649", "+100000", "-0", "000000000100000")
		}
	}
	if g.oddly(12) {
		odd = true
		flags = g.one("x", "18446744073709551616", "", "0x1", "007")
	}
	s := step{}
	id := ""
	if command == "cas" {
		switch {
		case g.rarely(8):
			odd = true
			id = " " + g.one("0", "1", "18446744073709551615")
		case g.oddly(8):
			odd = true
			id = " " + g.one("18446744073709551616", "-1", "x", "+1", "1x", "noreply")
		case g.oddly(8): // none at all
			odd = true
		default:
			id, s.casOf, s.barrier = " "+casMark, key, true
		}
	}
	more := ""
	if g.rarely(6) {
		more = " noreply"
	}
	if g.oddly(40) {
		odd = true
		more += g.one(" x", " 0", " noreply", "noreply", " NOREPLY")
	}
	data := g.small(key)
	length := strconv.Itoa(len(data))
	switch {
	case g.oddly(14):
		length = g.wrongLength(len(data))
	case !odd:
		data = g.value(key)
		length = strconv.Itoa(len(data))
	}
	end := "\r\n"
	if g.oddly(25) {
		end = g.one("\n", "\r", "", "xy", "\n\r", "\r\r\n", " \r\n", "\r\nx")
	}
	s.line = fmt.Sprintf("%s %s %s %s %s%s%s%s", command, key, flags, exptime, length, id, more, g.eol())
	s.data = data + end
	return s
}

// wrongLength returns a length other than n, or n in an odd form.
func (g *generator) wrongLength(n int) string {
	return g.one(strconv.Itoa(n+1), strconv.Itoa(n+17), strconv.Itoa(max(0, n-1)), strconv.Itoa(n/2), "0",
		"-1", "-2147483648", "2147483645", "2147483646", "2147483647", "2147483648", strconv.Itoa(n+1<<32),
		"-4294967290",
		"9223372036854775807", "9223372036854775808", "18446744073709551615", "x", "+"+strconv.Itoa(n),
		"\t"+strconv.Itoa(n),
		strconv.Itoa(n)+"\t", strconv.Itoa(n)+"x", "0"+strconv.Itoa(n), "000000000000"+strconv.Itoa(n), "1e1", "",
		"noreply")
}

// value returns data of 0 bytes to a little more than the largest that memcached stores.
func (g *generator) value(key string) string {
	switch p := g.rng.IntN(1000); {
	case p < 750:
		return g.small(key)
	case g.largest > 0:
		return g.binary(1 + g.rng.IntN(g.largest))
	case p < 900:
		return g.binary(100 + g.rng.IntN(3000))
	case p < 960:
		return g.binary(3000 + g.rng.IntN(60000))
	case p < 985:
		return g.binary(60000 + g.rng.IntN(500000))
	case p < 994:
		return g.binary(1<<20 - 200 + g.rng.IntN(400)) // around memcached's limit
	default:
		return g.binary(1<<20 + g.rng.IntN(100000))
	}
}

// small returns up to 40 bytes, or a number for the keys that arithmetic uses.
func (g *generator) small(key string) string {
	if strings.HasPrefix(strings.TrimPrefix(key, g.prefix), "n") && !g.rarely(8) {
		return g.one("0", "1", "9", "10", "99", "100", "999999999", "4294967296", "12 ", " 5", "007", "-3", "5x")
	}
	if g.rarely(6) {
		return g.one("END\r\n", "\r\nx", "x\r\nSTORED\r\n", "VALUE a 0 1\r\nx\r\nEND", "get a\r\n",
			"set b 0 0 1\r\nz\r\n", "\x00", "a\x00b",
			"\n.", "\r.", "END", "ERROR\r\n")
	}
	return g.binary(1 + g.rng.IntN(40))
}

// longestLine is the maximum number of bytes without a line end in a value.
const longestLine = 900

// binary returns n bytes of any value; the first is not white space.
func (g *generator) binary(n int) string {
	b := make([]byte, n)
	for i := 0; i < n; i += 8 {
		v := g.rng.Uint64()
		for j := i; j < min(i+8, n); j++ {
			b[j] = byte(v)
			v >>= 8
		}
	}
	for i := longestLine; i < n; i += longestLine {
		b[i] = '\n'
	}
	if n > 0 {
		b[0] |= 0x80
	}
	return string(b)
}

func (g *generator) arithmetic() step {
	key := g.one(g.prefix+"n1", g.prefix+"n1", g.prefix+"n2", g.prefix+"n2", g.key())
	delta := g.one("1", "1", "2", "9", "90", "1000", "100000000000000000", "0")
	if g.oddly(6) {
		delta = g.one("-1", "x", "1x", "18446744073709551616", "1.5", "+1", "\t1", "noreply", "-0", "0001",
			"00000000000000000000001")
	}
	return g.line(g.one("incr ", "decr ")+key+" "+delta, "")
}

func (g *generator) flushAll() step {
	more := g.one("", "", " 0", " -1", " 100000")
	if g.oddly(3) {
		more = g.one(" x", " +100000", " 9223372036854775808", " 100000 x")
	}
	s := g.line("flush_all", more)
	w := words(strings.TrimRight(s.line, "\r\n"))
	delayed := len(w) > 1 && strings.Contains(w[1], "100000")
	if delayed && g.flushed {
		return g.line("flush_all", "")
	}
	g.flushed = g.flushed || !delayed
	return s
}

func (g *generator) control() step {
	switch g.rng.IntN(6) {
	case 0:
		return g.line("version", "")
	case 1:
		if g.malformed {
			return g.line("verbosity", g.one("", " x", " -1", " 4294967296", " 18446744073709551616", " 1 x", " 0 0 0"))
		}
		return g.line("verbosity", g.one(" 0", " 1"))
	case 2, 3:
		arg := g.one("", " items", " slabs", " settings", " sizes", " conns", " reset", " detail on", " detail off",
			" detail dump")
		if g.malformed {
			arg = g.one(arg, arg, " bogus", " detail", " detail bogus")
		}
		return g.line("stats", arg)
	case 4:
		switch {
		case g.rarely(3) && g.malformed:
			return step{line: g.one("quit now", "quit noreply", " quit", "quit "+g.key()) + g.eol()}
		case g.rarely(3):
			return step{line: "quit" + g.eol()}
		case g.malformed:
			return g.line(g.one("shutdown", "shutdown graceful", "shutdown x"), "")
		}
		return g.line("version", "")
	default:
		text := g.one("slabs automove 0", "slabs automove 1", "slabs automove ratio 0.8", "lru mode flat",
			"lru mode segmented", "lru mode x",
			"lru tune 20 40 0.2 2.0", "lru tune 80 40 0.2 2.0", "lru tune 10 10 0 0", "lru temp_ttl -1",
			"lru_crawler tocrawl 10",
			"lru_crawler sleep 100", "lru_crawler sleep 2000000", "lru_crawler crawl x", "cache_memlimit 1",
			"cache_memlimit 1024")
		if g.malformed {
			text = g.one(text, "slabs", "slabs automove x", "slabs automove 9", "slabs automove", "slabs bogus",
				"slabs automove ratio x",
				"slabs automove ratio", "slabs reassign x y", "slabs reassign 1", "lru mode", "lru tune x",
				"lru temp_ttl x", "lru bogus", "lru_crawler",
				"lru_crawler bogus", "lru_crawler tocrawl x", "lru_crawler sleep x", "lru_crawler crawl",
				"cache_memlimit x", "cache_memlimit",
				"cache_memlimit 2000000000")
		}
		s := g.line(text, "")
		s.line = strings.TrimRight(s.line, "\t\r\n") + "\r\n"
		return s
	}
}
