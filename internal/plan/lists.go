package plan

import (
	"bytes"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"mcmw/internal/protocol"
)

// merges make one list of the middleware's own list, which may be nil, and several servers' lists of statistics, by the
// argument of stats. The settings are the first server's, because a sum of settings means nothing; the others are sums
// over the servers.
var merges = map[string]func(dst, own []byte, calls []Call) []byte{
	"settings": firstList, "items": addedLists, "slabs": addedLists, "sizes": addedLists,
}

// firstList appends the list of the first server that has one.
func firstList(dst, _ []byte, calls []Call) []byte {
	for i := range calls {
		if calls[i].kind == protocol.ReplyEnd {
			return append(dst, calls[i].reply...)
		}
	}
	return dst
}

// addedLists appends own, and of other names the sums over the lists of calls, in the order in which names come first.
func addedLists(dst, own []byte, calls []Call) []byte {
	var names []string
	values := map[string]string{}
	add := func(list []byte) {
		for line := range bytes.Lines(list) {
			stat, rest, _ := bytes.Cut(bytes.TrimSuffix(line, crlf), blank)
			name, value, _ := bytes.Cut(rest, blank)
			if string(stat) != "STAT" {
				continue
			}
			before, seen := values[string(name)]
			if !seen {
				names = append(names, string(name))
				values[string(name)] = string(value)
				continue
			}
			values[string(name)] = added(string(name), before, string(value))
		}
	}
	add(own)
	owned := maps.Clone(values)
	for i := range calls {
		if calls[i].kind == protocol.ReplyEnd {
			add(calls[i].reply)
		}
	}
	maps.Copy(values, owned)
	for _, name := range names {
		dst = fmt.Appendf(dst, "STAT %s %s\r\n", name, values[name])
	}
	return append(dst, protocol.TextEnd...)
}

// added returns the statistic of servers that have before and value: the sum. Of an age or a power it is the greatest,
// of what is not a number, or the same everywhere, the first.
func added(name, before, value string) string {
	a, err := strconv.ParseUint(before, 10, 64)
	b, err2 := strconv.ParseUint(value, 10, 64)
	kind := name[strings.LastIndexByte(name, ':')+1:]
	switch {
	case err != nil || err2 != nil, kind == "chunk_size", kind == "chunks_per_page", kind == "pointer_size":
		return before
	case strings.HasPrefix(kind, "age"), kind == "hash_power_level":
		return strconv.FormatUint(max(a, b), 10)
	}
	return strconv.FormatUint(a+b, 10)
}
