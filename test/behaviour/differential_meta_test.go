package behaviour_test

import (
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
)

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
