package behaviour_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// step is one command as it is sent: a line with its line end, and the data block, if any. It may be malformed in any
// way.
type step struct {
	line string
	data string
	// casOf, if not "", is the key whose last seen cas id replaces casMark in line. Ids differ from server to server.
	casOf string
	// barrier says that all replies so far must arrive before this step is sent.
	barrier bool
}

// quote is strconv.Quote with long repetitions of a character abbreviated.
func quote(s string) string {
	const run = 20
	for i := range len(s) {
		n := len(s[i:]) - len(strings.TrimLeft(s[i:], s[i:i+1]))
		if n < run || s[i] >= 0x80 {
			continue
		}
		text := fmt.Sprintf("%d x %q", n, s[i:i+1])
		if i > 0 {
			text = strconv.Quote(s[:i]) + " + " + text
		}
		if i+n < len(s) {
			text += " + " + quote(s[i+n:])
		}
		return text
	}
	return strconv.Quote(s)
}

// casMark is the placeholder of the cas id in a step's line.
const casMark = "<cas>"

func (s step) String() string {
	text := quote(s.line)
	switch {
	case len(s.data) > 300:
		text += fmt.Sprintf(" + %q... (%d bytes, ending in %q)", s.data[:100], len(s.data), s.data[len(s.data)-20:])
	case s.data != "":
		text += " + " + quote(s.data)
	}
	if s.casOf != "" {
		text += " with the cas id last seen for " + s.casOf
	}
	return text
}

// effect is the effect of a step on the framing of its connection, derived from its bytes in the way memcached reads
// them. A wrong guess makes the test wait for its timeout; it cannot hide a difference.
type effect struct {
	// alone says that memcached drops the replies that it has not flushed yet when it reads this line. Which ones
	// depends on how the bytes happened to arrive, so nothing is pipelined before it.
	alone bool
	// onePiece says that it depends on the pieces in which the line arrives whether memcached accepts it, so it is sent
	// in one piece.
	onePiece bool
	// closes says that the line is so long, without a line end, that the server closes the connection.
	closes bool
	// wants is the number of bytes that are missing in its data block; negative if there are too many.
	wants int
}

// maxLine is the number of bytes without a line end after which memcached closes the connection.
const maxLine = 2048

// ends makes a connection useless: memcached waits for more data than any test sends.
const ends = 64 << 10

func (s step) effect() effect {
	var e effect
	line, ended := strings.CutSuffix(s.line, "\n")
	// A line that looks like an HTTP request's ends the connection.
	e.alone = strings.Contains(line, "HTTP/")
	line = strings.TrimSuffix(line, "\r")
	words := words(line)
	if len(line) >= maxLine-1 && !isMultiGet(line) {
		e.alone, e.onePiece, e.closes = true, true, !ended
	}
	if !ended || len(words) == 0 {
		return e
	}
	length := ""
	switch words[0] {
	case "quit":
		e.alone = true
	case "get", "gets", "gat", "gats":
		for _, key := range words[1:] {
			e.alone = e.alone || len(key) > 250
		}
	case "set", "add", "replace", "append", "prepend", "cas":
		if len(words) >= 5 && line[0] != ' ' {
			length = words[4]
		}
	case "ms":
		if len(words) > 2 && line[0] != ' ' && !hasOddFlag(words[3:]) {
			length = words[2]
		}
	}
	if n, ok := blockSize(length); ok {
		e.wants = n + 2 - len(s.data)
		// memcached delays its answers until the data is complete.
		e.alone = e.alone || e.wants > ends
	}
	return e
}

// isMultiGet reports whether a line without a line end is exempt from maxLine.
func isMultiGet(line string) bool {
	text := strings.TrimLeft(line, " ")
	return len(line)-len(text) <= 100 && (strings.HasPrefix(text, "get ") || strings.HasPrefix(text, "gets "))
}

// hasOddFlag reports whether a meta flag begins with an impossible character: then memcached checks nothing else.
func hasOddFlag(flags []string) bool {
	for _, f := range flags[:min(len(flags), 20)] {
		if c := f[0]; (c <= '@' || c >= '{') && (c < '0' || c > '9') {
			return true
		}
	}
	return false
}

// words splits a command line at spaces, as memcached does.
func words(line string) []string {
	return strings.FieldsFunc(line, func(r rune) bool { return r == ' ' })
}

// blockSize reads the length of a data block as memcached 1.6.40 and later do.
func blockSize(word string) (int, bool) {
	n, err := strconv.ParseUint(word, 10, 31)
	return int(n), err == nil && n <= math.MaxInt32-2 && len(word) <= 11
}

// isShortLived reports whether a line has a time to live that could end while the test runs: the item could still exist
// on one server and be gone on the other.
func isShortLived(line string) bool {
	for i, word := range words(strings.TrimRight(line, "\r\n")) {
		// Meta commands have it as a flag.
		if i > 0 && (word[0] == 'T' || word[0] == 'N' || word[0] == 'R') {
			word = word[1:]
		}
		if n, ok := blockSize(word); ok && n >= 1 && n < 1000 && i > 0 {
			return true
		}
	}
	return false
}

// reply is one element of a server's reply: a line, and the data that follows it.
type reply struct{ line, data string }

// splitReplies splits a stream of replies. A rest that it cannot split is returned as one last line.
func splitReplies(stream []byte) []reply {
	var replies []reply
	for len(stream) > 0 {
		end := bytes.Index(stream, []byte("\r\n"))
		if end < 0 {
			return append(replies, reply{line: string(stream)})
		}
		r := reply{line: string(stream[:end])}
		rest := stream[end+2:]
		if n, ok := dataLength(r.line); ok {
			if len(rest) < n+2 {
				return append(replies, reply{line: string(stream)})
			}
			r.data = string(rest[:n+2])
			rest = rest[n+2:]
		}
		replies = append(replies, r)
		stream = rest
	}
	return replies
}

func dataLength(line string) (int, bool) {
	fields := strings.Split(line, " ")
	at := 0
	switch {
	case fields[0] == "VALUE" && len(fields) >= 4:
		at = 3
	case fields[0] == "VA" && len(fields) >= 2:
		at = 1
	default:
		return 0, false
	}
	n, err := strconv.Atoi(fields[at])
	return n, err == nil && n >= 0
}

// casIDs pairs the cas ids of two servers: each id of one corresponds to exactly one of the other.
type casIDs struct{ there, back map[string]string }

func newCasIDs() *casIDs { return &casIDs{there: map[string]string{}, back: map[string]string{}} }

func (c *casIDs) match(a, b string) bool {
	knownB, okA := c.there[a]
	knownA, okB := c.back[b]
	if !okA && !okB {
		c.there[a], c.back[b] = b, a
		return true
	}
	return okA && okB && knownB == b && knownA == a
}

// compareReplies returns "" if two streams of replies are equal byte for byte, except for parts that differ between any
// two servers: statistics, the version, cas ids (which must correspond), and ages in seconds.
func compareReplies(direct, other []byte, ids *casIDs) string {
	a, b := dropStatistics(splitReplies(direct)), dropStatistics(splitReplies(other))
	for i := range max(len(a), len(b)) {
		switch {
		case i >= len(a):
			return fmt.Sprintf("reply %d is one too many: %q", i+1, cut(b[i].line))
		case i >= len(b):
			return fmt.Sprintf("reply %d is missing: %q", i+1, cut(a[i].line))
		case a[i].data != b[i].data:
			return fmt.Sprintf("reply %d: the data after %q and %q differ: %q and %q",
				i+1, cut(a[i].line), cut(b[i].line), cut(a[i].data), cut(b[i].data))
		case !sameLine(a[i].line, b[i].line, ids):
			return fmt.Sprintf("reply %d differs: %q and %q", i+1, cut(a[i].line), cut(b[i].line))
		}
	}
	return ""
}

// dropStatistics removes the elements of statistics lists; the END that closes a list stays.
func dropStatistics(replies []reply) []reply {
	kept := replies[:0]
	for _, r := range replies {
		if word, _, _ := strings.Cut(r.line, " "); word != "STAT" && word != "ITEM" && word != "PREFIX" {
			kept = append(kept, r)
		}
	}
	return kept
}

func sameLine(a, b string, ids *casIDs) bool {
	if a == b && !strings.HasPrefix(a, "VALUE ") && !strings.Contains(a, " c") {
		return true
	}
	x, y := strings.Split(a, " "), strings.Split(b, " ")
	if len(x) != len(y) || x[0] != y[0] {
		return x[0] == "VERSION" && y[0] == "VERSION"
	}
	for i := range x {
		switch {
		case x[0] == "VERSION":
		case x[0] == "VALUE" && i == 4:
			if !ids.match(x[1]+" "+x[i], y[1]+" "+y[i]) { // two servers may have the same id for different keys
				return false
			}
		case x[0] == "ME" && i > 1:
			// exp, la and cas are times and ids; the rest must agree.
			name, _, _ := strings.Cut(x[i], "=")
			if other, _, _ := strings.Cut(y[i], "="); name != other {
				return false
			}
			if name != "exp" && name != "la" && name != "cas" && x[i] != y[i] {
				return false
			}
		case (x[0] == "HD" || x[0] == "VA") && i > 0 && isNumberFlag(x[i], 'c') && isNumberFlag(y[i], 'c'):
			if !ids.match(x[i][1:], y[i][1:]) {
				return false
			}
		case (x[0] == "HD" || x[0] == "VA") && i > 0 &&
			(isNumberFlag(x[i], 't') && isNumberFlag(y[i], 't') || isNumberFlag(x[i], 'l') && isNumberFlag(y[i], 'l')):
		case x[i] != y[i]:
			return false
		}
	}
	return true
}

// isNumberFlag reports whether a meta flag is letter followed by a number.
func isNumberFlag(flag string, letter byte) bool {
	if len(flag) < 2 || flag[0] != letter {
		return false
	}
	return strings.Trim(flag[1:], "0123456789") == ""
}

// cut shortens long replies to their end, which is the interesting part.
func cut(s string) string {
	const most = 200
	if len(s) <= most {
		return s
	}
	return fmt.Sprintf("%s ... %s (%d bytes)", s[:most/2], s[len(s)-most/2:], len(s))
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
