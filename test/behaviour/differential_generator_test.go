package behaviour_test

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

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

func (g *generator) metaCommand() step {
	key := g.key()
	switch g.rng.IntN(8) {
	case 0, 1, 2:
		return step{line: "mg " + key + g.flags("vkstcflhuqO", "ETNRbZ") + g.eol()}
	case 3, 4:
		return g.metaSet(key)
	case 5:
		return step{line: "md " + key + g.flags("qkOI", "Tbx") + g.eol()}
	case 6:
		key = g.one(g.prefix+"n1", g.prefix+"n2", key)
		// In quiet mode, older versions of memcached answer one that creates its item.
		return step{line: "ma " + key + g.one(g.flags("vktcqO", "JDMTbx"), g.flags("vktcO", "N")) + g.eol()}
	default:
		if !g.malformed {
			return step{line: g.one("mn", "me "+key) + "\r\n"}
		}
		return step{line: g.one("mn", "mn x", "me "+key, "me", "mg", "ms", "md", "ma", "mx "+key, "m", "ms "+key,
			"mg "+key) + g.eol()}
	}
}

func (g *generator) metaSet(key string) step {
	data, flags := g.small(key), g.flags("kcqOI", "FTMCbx")
	if g.rarely(5) && len(key) <= 250 {
		data, flags = g.value(key), ""
	}
	length := strconv.Itoa(len(data))
	if g.oddly(10) && len(data) < 1000 {
		length = g.one(g.wrongLength(len(data)), "S"+length)
	}
	end := "\r\n"
	if g.oddly(25) {
		end = g.one("\n", "", "xy", "\r\r\n")
	}
	return step{line: "ms " + key + " " + length + flags + g.eol(), data: data + end}
}

// flags returns some meta flags: of plain any number, of others at most one.
func (g *generator) flags(plain, others string) string {
	var b strings.Builder
	for _, f := range plain {
		if !g.rarely(3) {
			continue
		}
		b.WriteString(" " + string(f))
		if f == 'O' {
			b.WriteString(g.one("1", "opaque", "", strings.Repeat("q", 31)))
		}
	}
	if f := others[g.rng.IntN(len(others))]; g.rarely(3) && (g.malformed || strings.IndexByte("bxEZ", f) < 0) {
		b.WriteString(" " + string(f))
		odd := g.oddly(3)
		switch f {
		case 'T', 'N', 'R':
			b.WriteString(g.one("0", "100000", "-1", "2592001", "200000"))
			if odd {
				b.WriteString(g.one("x", "\t", "1x", ".5"))
			}
		case 'F':
			b.WriteString(g.one("0", "7", "4294967295"))
			if odd {
				b.WriteString(g.one("x", "9999999999", "-1"))
			}
		case 'C':
			b.WriteString(g.one("0", "1"))
			if odd {
				b.WriteString(g.one("x", "-1"))
			}
		case 'J', 'D':
			b.WriteString(g.one("0", "1", "99", "100000000000000000"))
			if odd {
				b.WriteString("x")
			}
		case 'M':
			if odd {
				b.WriteString(g.one("I", "D", "+", "-", "x", "", "EA", "E", "A"))
			} else if others[0] == 'N' {
				b.WriteString(g.one("I", "D", "+", "-"))
			} else {
				b.WriteString(g.one("E", "A", "P", "R", "S"))
			}
		}
	}
	if g.oddly(30) {
		b.WriteString(g.one(" v v", " k k", " noreply", " 0", " \xff", " O1 O2", " T", " N", " F", " C",
			" s t v c f l h u q k O1 T0 N0 R0 b F0 C0 I E"))
	}
	return b.String()
}

// garbage returns lines that are not commands.
func (g *generator) garbage() step {
	switch g.rng.IntN(9) {
	case 0:
		return step{line: g.one("", " ", "\r", "x", "  x", "\t", "g", "ge", "gett a", "GET a", "Get a", "sets a 0 0 1",
			"get", "get ",
			"gets", "gat", "gat 0", "gats  ", "gat  0  a", "bget", "delete", "delete  ", "incr", "incr a", "decr n1",
			"touch", "touch a", "cas", "set",
			"set a", "set a 0", "set a 0 0", "add a 0 0 x", "replace", "append a 0 0", "prepend a 0 0 1 2 3 4",
			"verbosity", "flush_all 1 2 3", "noreply",
			"set noreply", "get\ta", "get a\tb", "VALUE a 0 1", "END", "STORED", "mgx a", "stats\titems") + g.eol()}
	case 1:
		return step{line: g.binaryLine(1+g.rng.IntN(60)) + g.eol()}
	case 2:
		return step{line: strings.Repeat(" ", g.rng.IntN(120)) + "get " + g.keys[0] +
			strings.Repeat(" ", g.rng.IntN(120)) + g.eol()}
	case 3:
		// Up to the longest line that can arrive in pieces.
		return step{line: g.one("x", "get", "set a 0 0 1 ", "delete ") +
			strings.Repeat("y", maxLine-20+g.rng.IntN(8)-12) + "\r\n"}
	case 4:
		return step{line: "delete " + strings.Repeat("d", 240+g.rng.IntN(20)) + g.eol()}
	case 5:
		if !g.rarely(4) {
			return step{line: g.one("GET / HTTP/1.1", "POST /x HTTP/1.0", "get HTTP/1.1", "set HTTP/", "mGET HTTP/1",
				"lru HTTP/1.1", "x HTTP/1.1 y") + "\r\n"}
		}
		// Without any line end: both servers close the connection.
		return step{line: g.one("x", "set ", "gat 0 ", strings.Repeat(" ", 101)+"get ") +
			strings.Repeat("z", maxLine+g.rng.IntN(2000)), barrier: true}
	case 6:
		// Too long for a line in pieces, but with its end in the same read.
		return step{
			line:    g.one("x", "delete ", "set ") + strings.Repeat("z", maxLine+g.rng.IntN(2000)) + "\r\n",
			barrier: true,
		}
	case 7:
		return step{line: g.one("incr ", "touch ", "set ", "cas ", "mg ", "ms ", "md ", "ma ", "me ") +
			strings.Repeat("o", 249+g.rng.IntN(5)) + " 1" + g.eol()}
	default:
		// An odd word instead of the command, with valid arguments.
		return step{line: g.one("gez", "se", "ad", "incrr", "dele", "tch", "flush", "flush_al", "ver", "statss",
			"quitt", "casx", "verbosityy", "replacee") +
			" a 0 0 1" + g.eol()}
	}
}

// binaryLine returns n bytes without a line end that cannot be read as a long-running command.
func (g *generator) binaryLine(n int) string { return strings.ReplaceAll(g.binary(n), "\n", "\r") }

// mutate changes a command line in one or two places.
func (g *generator) mutate(s step) step {
	if s.casOf != "" || len(s.data) > 1000 {
		return s
	}
	body := strings.TrimRight(s.line, "\r\n")
	eol := s.line[len(body):]
	b := []byte(body)
	for range 1 + g.rng.IntN(2) {
		if len(b) == 0 {
			break
		}
		at := g.rng.IntN(len(b))
		switch g.rng.IntN(6) {
		case 0:
			b = append(b[:at], b[at+1:]...)
		case 1:
			b = append(b[:at], append([]byte(" "), b[at:]...)...)
		case 2:
			b[at] = byte(1 + g.rng.IntN(255))
		case 3:
			b = append(b[:at], append([]byte{b[at]}, b[at:]...)...)
		case 4:
			b = append([]byte("  "), b...)
		default:
			b[at] = g.one(" ", "\t", "\r", "0", "9")[0]
		}
	}
	mutated := step{line: strings.ReplaceAll(string(b), "\n", " ") + eol, data: s.data, barrier: true}
	if isShortLived(mutated.line) && !isShortLived(s.line) || mutated.isLeftOutOfMutants() {
		return s
	}
	return mutated
}

// isLeftOutOfMutants reports whether a mutation produced something that scripts have only in a few forms, or never.
func (s step) isLeftOutOfMutants() bool {
	w := words(strings.TrimRight(s.line, "\r\n"))
	if len(w) == 0 {
		return false
	}
	switch w[0] {
	case "watch", "extstore", "refresh_certs", "lru_crawler", "slabs", "lru", "stats", "flush_all", "me":
		return true
	case "set", "add", "replace", "append", "prepend", "cas":
		// Numbers that only strtol reads as flags, or, with white space, as an exptime.
		for k, word := range w[min(2, len(w)):min(4, len(w))] {
			if _, err := strconv.ParseInt(word, 10, 32+32*k); err != nil || k == 0 &&
				(word[0] == '+' || word[0] == '-') {
				return true
			}
		}
	}
	return strings.ContainsAny(s.line, "-\x00")
}

// isLeftOut reports whether mcmw deliberately answers s differently from memcached: see generator.
func (s step) isLeftOut() bool {
	if strings.HasPrefix(s.line, "\x80") {
		return true // the binary protocol
	}
	w := words(strings.TrimRight(s.line, "\n"))
	if len(w) == 0 {
		return false
	}
	switch w[0] {
	case "get", "gets", "gat", "gats":
		return slices.ContainsFunc(w, func(word string) bool { return len(strings.TrimSuffix(word, "\r")) > 250 })
	case "me":
		return len(w) > 2 && w[2] == "b"
	case "mg", "ms", "md", "ma":
		binary := slices.ContainsFunc(w[min(2, len(w)):], func(flag string) bool { return flag[0] == 'b' })
		key, err := base64.StdEncoding.Strict().DecodeString(w[min(1, len(w)-1)])
		return binary && (err != nil || len(key) == 0) || len(w) > 19
	}
	return false
}
