// Package strict parses memcached requests as the strictest server would, independently of mcmw's own code: every
// memcached reads the requests that it accepts in the same way. Test use only.
package strict

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// Request is one request. A single space separates the words of Line.
type Request struct {
	Line string
	Data string // without the CRLF at its end
	// Keys are the keys; keys in base64 are decoded.
	Keys []string
}

// Name returns the first word.
func (r *Request) Name() string { return r.words()[0] }

func (r *Request) words() []string { return strings.Split(r.Line, " ") }

// Has reports whether a meta command has the flag.
func (r *Request) Has(flag byte) bool {
	w := r.words()
	return len(w) > 2 && slices.ContainsFunc(w[2:], func(word string) bool { return word[0] == flag })
}

const (
	maxKey   = 250
	maxWords = 19 // of a meta command
)

// Read reads one request. The error io.EOF means that there is none, any other error that the request is invalid.
func Read(r *bufio.Reader) (Request, error) {
	line, err := r.ReadString('\n')
	if err == io.EOF && line == "" {
		return Request{}, io.EOF
	}
	if err != nil || !strings.HasSuffix(line, "\r\n") {
		return Request{}, fmt.Errorf("the line %q does not end in CRLF (%v)", line, err)
	}
	q := Request{Line: strings.TrimSuffix(line, "\r\n")}
	if strings.Contains(q.Line, "\x00") {
		return q, fmt.Errorf("the line %q has a zero byte", q.Line)
	}
	w := q.words()
	if slices.Contains(w, "") {
		return q, fmt.Errorf("the line %q has a space too many", q.Line)
	}
	size, err := q.check(w)
	if err != nil || size < 0 {
		return q, err
	}
	data := make([]byte, size+2)
	if _, err := io.ReadFull(r, data); err != nil || string(data[size:]) != "\r\n" {
		return q, fmt.Errorf("expected %d bytes and CRLF after %q (%v)", size, q.Line, err)
	}
	q.Data = string(data[:size])
	return q, nil
}

// check checks the words of a line and returns the size of the data block that follows, -1 if there is none.
func (q *Request) check(w []string) (size int, err error) {
	args := w[1:]
	wrong := func() (int, error) { return -1, fmt.Errorf("not a memcached command: %q", q.Line) }
	is := func(checks ...func(string) bool) bool {
		return len(args) == len(checks) && !slices.ContainsFunc(checks, func(check func(string) bool) bool {
			ok := check(args[0])
			args = args[1:]
			return !ok
		})
	}
	keys := func(words []string) bool {
		q.Keys = words
		return len(words) > 0 && !slices.ContainsFunc(words, func(word string) bool { return !isKey(word) })
	}
	ok := false
	switch w[0] {
	case "get", "gets":
		ok = keys(args)
	case "gat", "gats":
		ok = len(args) > 1 && isExptime(args[0]) && keys(args[1:])
	case "set", "add", "replace", "append", "prepend", "cas":
		checks := []func(string) bool{isKey, isUint32, isExptime, isSize}
		if w[0] == "cas" {
			checks = append(checks, isUint64)
		}
		if !is(checks...) {
			return wrong()
		}
		q.Keys = w[1:2]
		return strconv.Atoi(w[4])
	case "delete":
		// A key noreply needs another word after it, or it would be read as the option.
		ok = is(isKey) && w[1] != "noreply" || q.Line == "delete noreply 0"
		q.Keys = w[1:2]
	case "incr", "decr":
		ok = is(isKey, isUint64)
		q.Keys = w[1:2]
	case "touch":
		ok = is(isKey, isExptime)
		q.Keys = w[1:2]
	case "flush_all":
		ok = len(args) == 0 || is(isExptime)
	case "version", "mn":
		ok = len(args) == 0
	case "verbosity":
		ok = is(isUint32)
	case "stats":
		ok = slices.Contains([]string{
			"", "items", "slabs", "sizes", "sizes_enable", "sizes_disable", "settings", "conns", "reset", "extstore",
			"proxy", "proxyfuncs",
			"proxybe", "detail", "detail on", "detail off", "detail dump",
		}, strings.Join(args, " "))
	case "slabs", "lru", "lru_crawler", "cache_memlimit":
		ok = len(args) > 0 && (w[0] == "cache_memlimit" || slices.Contains([]string{
			"slabs reassign", "slabs automove", "lru tune", "lru mode", "lru temp_ttl", "lru_crawler enable",
			"lru_crawler disable",
			"lru_crawler crawl", "lru_crawler tocrawl", "lru_crawler sleep",
		}, w[0]+" "+w[1])) && strings.Trim(strings.Join(args, ""), names) == ""
	case "mg", "ms", "md", "ma", "me":
		return q.checkMeta(w)
	}
	if !ok {
		return wrong()
	}
	return -1, nil
}

const names = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.,"

// checkMeta is check for meta commands.
func (q *Request) checkMeta(w []string) (size int, err error) {
	wrong := func(why string) (int, error) { return -1, fmt.Errorf("not a meta command, %s: %q", why, q.Line) }
	size, first := -1, 2
	if w[0] == "ms" {
		first = 3
	}
	if len(w) < first || len(w) > maxWords || !isKey(w[1]) {
		return wrong("it has too few or too many words, or no key")
	}
	if w[0] == "ms" {
		if !isSize(w[2]) {
			return wrong("its size is invalid")
		}
		size, _ = strconv.Atoi(w[2])
	}
	if w[0] == "me" && len(w) != 2 && strings.Join(w[2:], " ") != "b b" {
		return wrong("the flags of me are other than b b")
	}
	q.Keys = []string{w[1]}
	seen := map[byte]bool{}
	for _, word := range w[first:] {
		letter, value := word[0], word[1:]
		if seen[letter] && w[0] != "me" {
			return wrong("a flag is repeated")
		}
		seen[letter] = true
		ok := false
		switch letter {
		case 'b':
			key, err := base64.StdEncoding.Strict().DecodeString(w[1])
			ok = value == "" && err == nil && len(key) > 0 && !strings.Contains(w[1], "\r")
			q.Keys = []string{string(key)}
		case 'k', 's', 't', 'c', 'f', 'v', 'l', 'h', 'u', 'q', 'x', 'I':
			ok = value == ""
		case 'N', 'T', 'R':
			ok = isExptime(value)
		case 'C', 'E', 'J', 'D':
			ok = isUint64(value)
		case 'F':
			ok = isUint32(value)
		case 'O':
			ok = len(word) <= 32
		case 'P', 'L':
			ok = true
		case 'M':
			ok = len(value) <= 1 && (w[0] != "ms" || value != "" && strings.Contains("EAPRS", value)) &&
				(w[0] != "ma" || value != "" && strings.Contains("ID+-", value))
		}
		if !ok {
			return wrong("the flag " + word)
		}
	}
	return size, nil
}

func isKey(s string) bool { return s != "" && len(s) <= maxKey && !strings.ContainsAny(s, " \n\x00") }

func isUnsigned(s string, bits int) bool {
	n, err := strconv.ParseUint(s, 10, bits)
	return err == nil && s == strconv.FormatUint(n, 10)
}

func isUint32(s string) bool { return isUnsigned(s, 32) }

func isUint64(s string) bool { return isUnsigned(s, 64) }

func isSize(s string) bool {
	n, err := strconv.Atoi(s)
	return err == nil && isUnsigned(s, 31) && n <= 1<<31-3
}

func isExptime(s string) bool {
	n, err := strconv.ParseInt(s, 10, 32)
	return err == nil && s == strconv.FormatInt(n, 10)
}
