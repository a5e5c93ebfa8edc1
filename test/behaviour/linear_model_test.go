package behaviour_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"mcmw/internal/protocol"
)

// operation is the part of a request of a history that concerns one key, with its result.
type operation struct {
	client int
	// invoked and returned are ticks of one clock for the whole history: before the request was sent and after its
	// reply was read. returned is never if there was no reply to wait for.
	invoked, returned int64

	verb   string // of the classic form: get, set, add, replace, append, prepend, cas, delete, incr, decr
	value  string // of a storage command, or the initial value of an arithmetic command that creates a missing item
	flags  string
	token  string // the cas that is compared; "" for none
	delta  uint64
	made   bool // an arithmetic command creates a missing item
	result result

	request, reply string // as sent and read, for people
}

// never is after every tick.
const never = int64(1) << 62

// result is a reply in the words of the classic protocol. The zero value is no reply.
type result struct {
	word  string // STORED, NOT_STORED, EXISTS, NOT_FOUND, DELETED, VALUE, END, NUMBER, NON_NUMERIC
	value string
	flags string // "" where the reply does not tell
	token string // "" where the reply does not tell
}

// item is the item that a sequential memcached holds under the key.
type item struct {
	present bool
	value   string
	flags   string
	// version stands for the cas: it changes with every change of the item.
	version int
	// tokens are the cas tokens that replies have shown, with their versions. The map is never changed, only replaced.
	tokens []shownToken
	// stamped says that an item created by incr or ma gets its version a moment later, which changes its token.
	stamped bool
}

type shownToken struct {
	token   string
	version int
}

// fingerprint distinguishes items.
func (it item) fingerprint() string {
	return fmt.Sprint(it.present, it.value, it.flags, it.version, it.tokens)
}

// early reports whether token can be that of an item that does not have its version yet.
func (it *item) early(token string) bool {
	n, err := strconv.ParseUint(token, 10, 64)
	return it.stamped && err == nil && n < protocol.FirstVersion
}

// show binds token to the current version. It fails if the token belongs to another version, or the version to another
// token.
func (it *item) show(token string) bool {
	for _, t := range it.tokens {
		if t.token == token || t.version == it.version && it.early(t.token) == it.early(token) {
			return t.token == token && t.version == it.version
		}
	}
	it.tokens = append(slices.Clip(it.tokens), shownToken{token, it.version})
	return true
}

// matches reports whether token belongs to the current version.
func (it *item) matches(token string) bool {
	return slices.Contains(it.tokens, shownToken{token, it.version})
}

// apply runs op on it. versions is a version that no item had. It returns false if a sequential memcached would not
// have given op's answer.
func (it item) apply(op *operation, version int) (item, bool) {
	next, want := it.change(op, version)
	got := op.result
	if got.word == "" {
		return next, true
	}
	if got.word != want.word || got.value != want.value || (got.flags != "" && got.flags != want.flags) {
		return next, false
	}
	if got.token != "" && !next.show(got.token) {
		return next, false
	}
	return next, true
}

// change returns the item after op, and the answer.
func (it item) change(op *operation, version int) (item, result) {
	next := it
	next.version = version
	if op.token != "" {
		switch {
		case !it.present:
			return it, result{word: "NOT_FOUND"}
		case !it.matches(op.token), it.early(op.token) && op.result.word == "EXISTS":
			return it, result{word: "EXISTS"}
		}
	}
	switch op.verb {
	case "get":
		if !it.present {
			return it, result{word: "END"}
		}
		return it, result{word: "VALUE", value: it.value, flags: it.flags}
	case "add", "replace":
		if it.present == (op.verb == "add") {
			return it, result{word: "NOT_STORED"}
		}
	case "append", "prepend":
		if !it.present {
			return it, result{word: "NOT_STORED"}
		}
		next.value = it.value + op.value
		if op.verb == "prepend" {
			next.value = op.value + it.value
		}
		return next, result{word: "STORED"}
	case "delete":
		if !it.present {
			return it, result{word: "NOT_FOUND"}
		}
		next.present, next.value, next.flags = false, "", ""
		return next, result{word: "DELETED"}
	case "incr", "decr":
		return it.count(next, op)
	}
	next.present, next.value, next.flags = true, op.value, op.flags
	return next, result{word: "STORED"}
}

// count is change for incr and decr; next is the item with another version.
func (it item) count(next item, op *operation) (item, result) {
	if !it.present {
		if !op.made {
			return it, result{word: "NOT_FOUND"}
		}
		next.present, next.value, next.flags = true, op.value, "0"
		return next, result{word: "NUMBER", value: op.value}
	}
	n, err := strconv.ParseUint(it.value, 10, 64)
	if err != nil {
		return it, result{word: "NON_NUMERIC"}
	}
	if op.verb == "incr" {
		n += op.delta
	} else {
		n -= min(n, op.delta)
	}
	next.value = strconv.FormatUint(n, 10)
	return next, result{word: "NUMBER", value: next.value}
}

// linearizable reports whether the operations, all on one key, have an order in which a sequential memcached would have
// given the same answers, and in which each is between its invocation and its return, and after the earlier ones of its
// client. operations are in the order in which each client sent them. stamped is that of item.
//
// It is the search of Wing and Gong: try every operation that can be next. States that were tried are remembered, by
// the number of used operations of each client and the item.
func linearizable(operations []*operation, stamped bool) bool {
	s := search{tried: map[string]bool{}}
	for _, op := range operations {
		for len(s.clients) <= op.client {
			s.clients = append(s.clients, nil)
		}
		s.clients[op.client] = append(s.clients[op.client], op)
	}
	s.earliest = make([][]int64, len(s.clients))
	for c, list := range s.clients {
		s.earliest[c] = make([]int64, len(list)+1)
		s.earliest[c][len(list)] = never
		for i := len(list) - 1; i >= 0; i-- {
			s.earliest[c][i] = min(list[i].returned, s.earliest[c][i+1])
		}
	}
	s.used = make([]int, len(s.clients))
	return s.from(item{stamped: stamped}, 1)
}

type search struct {
	clients  [][]*operation
	earliest [][]int64 // [client][i]: the first return of the client's operations from i on
	used     []int     // by client: the number of operations that are placed
	tried    map[string]bool
}

// from reports whether the remaining operations can follow from it.
func (s *search) from(it item, depth int) bool {
	mark := fmt.Sprint(s.used) + it.fingerprint()
	if s.tried[mark] {
		return false
	}
	s.tried[mark] = true
	horizon, left := never, false
	for c, n := range s.used {
		horizon = min(horizon, s.earliest[c][n])
		left = left || n < len(s.clients[c])
	}
	if !left {
		return true
	}
	for c, n := range s.used {
		if n == len(s.clients[c]) || s.clients[c][n].invoked > horizon {
			continue
		}
		next, ok := it.apply(s.clients[c][n], depth)
		if !ok {
			continue
		}
		s.used[c]++
		if s.from(next, depth+1) {
			return true
		}
		s.used[c]--
	}
	return false
}

// describe lists the operations in the order of their invocation.
func describe(operations []*operation) string {
	sorted := slices.Clone(operations)
	slices.SortStableFunc(sorted, func(a, b *operation) int { return int(a.invoked - b.invoked) })
	var b strings.Builder
	for _, op := range sorted {
		returned := fmt.Sprint(op.returned)
		if op.returned == never {
			returned = "-"
		}
		fmt.Fprintf(&b, "client %d, %d to %s: %q -> %q\n", op.client, op.invoked, returned, op.request, op.reply)
	}
	return b.String()
}

// The checker must accept exactly the histories that a sequential memcached could have produced.
func TestTheCheckerAcceptsOnlyLinearizableHistories(t *testing.T) {
	at := func(op operation, client int, invoked, returned int64) *operation {
		op.client, op.invoked, op.returned = client, invoked, returned
		return &op
	}
	set := func(value string) operation {
		return operation{verb: "set", value: value, flags: "0", result: result{word: "STORED"}}
	}
	read := func(value string) operation {
		return operation{verb: "get", result: result{word: "VALUE", value: value}}
	}
	gets := func(value, token string) operation {
		return operation{verb: "get", result: result{word: "VALUE", value: value, token: token}}
	}
	cas := func(value, token, word string) operation {
		return operation{verb: "cas", value: value, token: token, result: result{word: word}}
	}
	miss := operation{verb: "get", result: result{word: "END"}}
	incr := func(word, value string) operation {
		return operation{verb: "incr", delta: 2, result: result{word: word, value: value}}
	}
	for _, tc := range []struct {
		name       string
		operations []*operation
		want       bool
	}{
		{"nothing", nil, true},
		{"a read of what was set", []*operation{at(set("a"), 0, 1, 2), at(read("a"), 1, 3, 4)}, true},
		{"a read of what nobody set", []*operation{at(set("a"), 0, 1, 2), at(read("b"), 1, 3, 4)}, false},
		{"a miss after a set", []*operation{at(set("a"), 0, 1, 2), at(miss, 1, 3, 4)}, false},
		{"a miss during a set", []*operation{at(set("a"), 0, 1, 4), at(miss, 1, 2, 3)}, true},
		{
			"a read that goes back",
			[]*operation{at(set("a"), 0, 1, 8), at(read("a"), 1, 2, 3), at(miss, 2, 4, 5)},
			false,
		},
		{
			"two concurrent reads, one of them early",
			[]*operation{at(set("a"), 0, 1, 8), at(read("a"), 1, 2, 5), at(miss, 2, 4, 6)},
			true,
		},
		{
			"a client's reads go back, sent together",
			[]*operation{at(set("a"), 0, 1, 8), at(read("a"), 1, 2, 5), at(miss, 1, 2, 6)},
			false,
		},
		{
			"concurrent writes, seen in one order",
			[]*operation{at(set("a"), 0, 1, 9), at(set("b"), 1, 1, 9), at(read("b"), 2, 2, 3), at(read("a"), 2, 4, 5)},
			true,
		},
		{"concurrent writes, seen in two orders", []*operation{
			at(set("a"), 0, 1, 9), at(set("b"), 1, 1, 9), at(read("b"), 2, 10, 11), at(read("a"), 2, 12, 13),
		}, false},
		{
			"a write without a reply takes effect late",
			[]*operation{
				at(operation{verb: "set", value: "a"}, 0, 1, never), at(miss, 1, 2, 3),
				at(read("a"), 1, 4, 5),
			},
			true,
		},
		{
			"a write without a reply is seen by its client",
			[]*operation{at(operation{verb: "set", value: "a"}, 0, 1, never), at(miss, 0, 2, 3)},
			false,
		},
		{
			"a cas with the current token",
			[]*operation{
				at(set("a"), 0, 1, 2), at(gets("a", "7"), 0, 3, 4), at(cas("b", "7", "STORED"), 0, 5, 6),
				at(read("b"), 1, 7, 8),
			},
			true,
		},
		{"a cas with an old token", []*operation{
			at(set("a"), 0, 1, 2), at(gets("a", "7"), 0, 3, 4),
			at(set("a"), 1, 5, 6), at(cas("b", "7", "STORED"), 0, 7, 8),
		}, false},
		{"the same, refused", []*operation{
			at(set("a"), 0, 1, 2), at(gets("a", "7"), 0, 3, 4), at(set("a"), 1, 5, 6),
			at(cas("b", "7", "EXISTS"), 0, 7, 8),
		}, true},
		{"one token for two values", []*operation{
			at(set("a"), 0, 1, 2), at(gets("a", "7"), 0, 3, 4),
			at(set("b"), 1, 5, 6), at(gets("b", "7"), 0, 7, 8),
		}, false},
		{"two tokens for one value", []*operation{
			at(set("a"), 0, 1, 2), at(gets("a", "7"), 0, 3, 4),
			at(gets("a", "8"), 0, 7, 8),
		}, false},
		{"a lost increment", []*operation{
			at(set("5"), 0, 1, 2), at(incr("NUMBER", "7"), 0, 3, 6),
			at(incr("NUMBER", "7"), 1, 4, 5),
		}, false},
		{"concurrent increments", []*operation{
			at(set("5"), 0, 1, 2), at(incr("NUMBER", "9"), 0, 3, 6),
			at(incr("NUMBER", "7"), 1, 4, 5),
		}, true},
		{"an increment of text", []*operation{at(set("x"), 0, 1, 2), at(incr("NON_NUMERIC", ""), 0, 3, 6)}, true},
	} {
		assert.Equal(t, tc.want, linearizable(tc.operations, false), "%s:\n%s", tc.name, describe(tc.operations))
	}
	const version = "4611686018427387905"
	for _, tc := range []struct {
		name       string
		operations []*operation
		want       bool
	}{
		{
			"a token before the item has its version",
			[]*operation{at(set("a"), 0, 1, 2), at(gets("a", "7"), 0, 3, 4), at(gets("a", version), 0, 7, 8)},
			true,
		},
		{"it is refused", []*operation{
			at(set("a"), 0, 1, 2), at(gets("a", "7"), 0, 3, 4),
			at(cas("b", "7", "EXISTS"), 0, 7, 8),
		}, true},
		{"it is good", []*operation{
			at(set("a"), 0, 1, 2), at(gets("a", "7"), 0, 3, 4),
			at(cas("b", "7", "STORED"), 0, 7, 8),
		}, true},
		{
			"it is valid for a later set",
			[]*operation{
				at(set("a"), 0, 1, 2), at(gets("a", "7"), 0, 3, 4), at(set("a"), 0, 5, 6),
				at(cas("b", "7", "STORED"), 0, 7, 8),
			},
			false,
		},
		{
			"two such tokens for one value",
			[]*operation{at(set("a"), 0, 1, 2), at(gets("a", "7"), 0, 3, 4), at(gets("a", "8"), 0, 7, 8)},
			false,
		},
		{"two versions of one value", []*operation{
			at(set("a"), 0, 1, 2), at(gets("a", version), 0, 3, 4),
			at(gets("a", version+"0"), 0, 7, 8),
		}, false},
		{"a version is refused", []*operation{
			at(set("a"), 0, 1, 2), at(gets("a", version), 0, 3, 4),
			at(cas("b", version, "EXISTS"), 0, 7, 8),
		}, false},
	} {
		assert.Equal(t, tc.want, linearizable(tc.operations, true), "%s:\n%s", tc.name, describe(tc.operations))
	}
}
