package behaviour_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

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
