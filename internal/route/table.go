package route

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// maxPools bounds the number of pools: a request may have to try them one by one.
const maxPools = 1000

// Table finds the pool of a key. It is immutable. See NewTable.
type Table struct {
	prefixes []string // sorted; the first is empty, for the keys without a prefix
	pools    []int    // by prefix: the pool's number
	strips   []int    // by prefix: how many bytes to remove from a key
	parents  []int    // by prefix: the longest other prefix that it begins with; -1: none, it is the empty one
	// first[c] is the number of prefixes that are empty or begin with a byte below c, and common[c] the longest text
	// that all prefixes beginning with c begin with.
	first   [257]int
	common  [256]string
	words   []uint64  // by prefix: the word of the part after common
	reads   []int     // by prefix: the pool that serves reads
	accepts []Accepts // by prefix: the kind of the route
	names   []string  // by pool
}

// NewTable returns the table for pools with these names. Its error is a *refusal.Error about a route, or another error
// if the names are wrong.
func NewTable(pools []string, r Routes) (*Table, error) {
	numbers := make(map[string]int, len(pools))
	for i, name := range pools {
		if _, twice := numbers[name]; twice || name == "" && len(pools) > 1 {
			return nil,
				fmt.Errorf("route: pool %d is named %q; accepted: a name that is not empty and that no other pool has",
					i+1, name)
		}
		numbers[name] = i
	}
	if len(pools) == 0 || len(pools) > maxPools {
		return nil, fmt.Errorf("route: %d pools given; accepted: 1 to %d", len(pools), maxPools)
	}
	known := strings.Join(pools, ", ")
	all := r.All()
	order := make([]int, len(all))
	for i, p := range all {
		order[i] = i
		all[i].Reads = cmp.Or(p.Reads, p.Pool)
		_, ok := numbers[p.Pool]
		_, readable := numbers[all[i].Reads]
		switch {
		case i == 0 && r.Default == "" && pools[0] != "":
			return nil, WrongRoute(-1, "no default pool, for the keys without a prefix; accepted: one of %s", known)
		case i == 0 && !ok:
			return nil, WrongRoute(-1, "the default pool %q is unknown; accepted: one of %s", r.Default, known)
		case i > 0 && p.Prefix == "":
			return nil, WrongRoute(i-1, "empty prefix; accepted: at least one byte, or default for all other keys")
		case !ok:
			return nil, WrongRoute(i-1, "the pool %q of prefix %q is unknown; accepted: one of %s", p.Pool,
				p.Prefix, known)
		case !readable:
			return nil, WrongRoute(i-1, "the pool %q for reads is unknown; accepted: one of %s", p.Reads, known)
		}
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(strings.Compare(all[a].Prefix, all[b].Prefix), cmp.Compare(a, b))
	})
	if err := checkStrips(r); err != nil {
		return nil, err
	}
	t := &Table{names: slices.Clone(pools), words: []uint64{0}}
	for k, i := range order {
		p := all[i]
		parent := k - 1
		if k > 0 && t.prefixes[parent] == p.Prefix {
			return nil, WrongRoute(i-1, "prefix %q is given twice; accepted: each once", p.Prefix)
		}
		for parent >= 0 && !strings.HasPrefix(p.Prefix, t.prefixes[parent]) {
			parent = t.parents[parent]
		}
		strip := 0
		if p.Strip {
			strip = len(p.Prefix)
		}
		t.prefixes, t.parents = append(t.prefixes, p.Prefix), append(t.parents, parent)
		t.pools, t.reads = append(t.pools, numbers[p.Pool]), append(t.reads, numbers[p.Reads])
		t.strips, t.accepts = append(t.strips, strip), append(t.accepts, p.Accepts)
		for c := range t.first {
			if k == 0 || c > int(p.Prefix[0]) {
				t.first[c]++
			}
		}
	}
	for c := range t.common {
		if from, to := t.first[c], t.first[c+1]; from < to {
			// The common beginning of sorted texts is that of the first and the last one.
			low, high := t.prefixes[from], t.prefixes[to-1]
			n := 0
			for n < min(len(low), len(high)) && low[n] == high[n] {
				n++
			}
			t.common[c] = low[:n]
			for _, p := range t.prefixes[from:to] {
				t.words = append(t.words, wordOf(p[n:]))
			}
		}
	}
	return t, nil
}

// forReads returns the table that finds the pools for reads; t itself if they are those of all other commands.
func (t *Table) forReads() *Table {
	if slices.Equal(t.reads, t.pools) {
		return t
	}
	u := *t
	u.pools = t.reads
	return &u
}

// checkStrips returns an error if a pool has a route that strips its prefix, and another route.
func checkStrips(r Routes) error {
	for i, p := range r.Prefixes {
		for _, pool := range []string{p.Pool, cmp.Or(p.Reads, p.Pool)} {
			refuse := func(other string) error {
				return WrongRoute(i,
					"prefix %q is stripped, but pool %q also has %s: two keys could become one there; give the prefix "+
						"a pool of its own, or don't strip it",
					p.Prefix, pool, other)
			}
			switch other := slices.IndexFunc(r.Prefixes,
				func(o Prefix) bool { return (o.Pool == pool || o.Reads == pool) && o.Prefix != p.Prefix }); {
			case !p.Strip:
			case r.Default == pool || r.Reads == pool:
				return refuse("the keys without a prefix")
			case other >= 0:
				return refuse(fmt.Sprintf("prefix %q", r.Prefixes[other].Prefix))
			}
		}
	}
	return nil
}

// find returns the index of the longest prefix that key begins with.
func (t *Table) find(key []byte) int {
	if len(key) == 0 {
		return 0
	}
	from, to := t.first[key[0]], t.first[int(key[0])+1]
	common := t.common[key[0]]
	if from == to || len(key) < len(common) || string(key[:len(common)]) != common {
		return 0
	}
	// Find the last prefix that does not sort after key. If key does not begin with it, the only candidates are the
	// shorter prefixes that this prefix begins with, its parents.
	word := wordOf(key[len(common):])
	for from < to {
		mid := int(uint(from+to) / 2)
		if at := t.words[mid]; at < word || at == word && t.prefixes[mid] <= string(key) {
			from = mid + 1
		} else {
			to = mid
		}
	}
	k := from - 1
	for !(len(key) >= len(t.prefixes[k]) && string(key[:len(t.prefixes[k])]) == t.prefixes[k]) {
		k = t.parents[k]
	}
	return k
}

// wordOf returns the first eight bytes of text as a number: if two texts differ in these bytes, their numbers compare
// as the texts do.
func wordOf[T string | []byte](text T) (word uint64) {
	if len(text) >= 8 {
		return uint64(text[7]) | uint64(text[6])<<8 | uint64(text[5])<<16 | uint64(text[4])<<24 |
			uint64(text[3])<<32 | uint64(text[2])<<40 | uint64(text[1])<<48 | uint64(text[0])<<56
	}
	for i := range len(text) {
		word |= uint64(text[i]) << (56 - 8*i)
	}
	return word
}

// Pool returns the number of key's pool. It allocates nothing.
func (t *Table) Pool(key []byte) int { return t.pools[t.find(key)] }

// Prefix returns the longest prefix that key begins with; "": none, the key is in the default pool.
func (t *Table) Prefix(key []byte) string { return t.prefixes[t.find(key)] }
