package behaviour_test

import (
	"bytes"
	"fmt"
	"math"
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
