package marker

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

const (
	// reads takes the place of a server's name in the mark by which a middleware registers as one that reads, and
	// acknowledges begins such a name in a mark that acknowledges another one. Middlewares that do not know these marks
	// keep them like marks of servers that are not in their list.
	reads        = " reads"
	acknowledges = " acknowledges "
)

// Mark says that a server missed writes of a middleware, its owner, and must not be read.
type Mark struct {
	Server string `json:"server"`
	Owner  string `json:"owner"`
	// Beat increases as long as the owner lives.
	Beat uint64 `json:"beat"`
}

// Marks is the value that a server holds under MarksKey. A server that holds no value, not even an empty list, has lost
// it.
type Marks []Mark

// Encode returns the marks as they are stored.
func (m Marks) Encode() string {
	b, _ := json.Marshal(append(Marks{}, m...)) // never fails
	return string(b)
}

// DecodeMarks returns the marks that are stored as b.
func DecodeMarks(b []byte) (m Marks, err error) {
	if err := json.Unmarshal(b, &m); err != nil {
		return nil, fmt.Errorf("the marks of servers that missed writes: %w", err)
	}
	return m, nil
}

// acknowledgement returns the acknowledgement of k by owner.
func (k Mark) acknowledgement(owner string) Mark {
	return Mark{acknowledges + k.Server + " of " + k.Owner, owner, k.Beat}
}

// ofServer reports whether k says that a server missed writes.
func (k Mark) ofServer() bool { return !strings.HasPrefix(k.Server, " ") }

// vouchesFor reports whether by k a middleware vouches for server, or asks for that.
func (k Mark) vouchesFor(server string) bool {
	vouched, vouch := strings.CutPrefix(k.Server, vouches)
	asked, ask := strings.CutPrefix(k.Server, asks)
	return vouch && vouched == server || ask && asked == server
}

// of reports whether owner has marked server.
func (m Marks) of(server, owner string) bool {
	return slices.ContainsFunc(m, func(k Mark) bool { return k.Server == server && k.Owner == owner })
}

// merge returns the marks of m and more, each once with its latest beat, in the order that stored marks have.
func (m Marks) merge(more Marks) Marks {
	if slices.Equal(m, more) {
		return m // which is in order: most servers hold the same
	}
	all := append(slices.Clone(m), more...)
	slices.SortFunc(all, func(a, b Mark) int {
		return cmp.Or(strings.Compare(a.Server, b.Server), strings.Compare(a.Owner, b.Owner),
			cmp.Compare(b.Beat, a.Beat))
	})
	return slices.CompactFunc(all, func(a, b Mark) bool { return a.Server == b.Server && a.Owner == b.Owner })
}

// holds reports whether m has k with the same beat or a later one.
func (m Marks) holds(k Mark) bool {
	return slices.ContainsFunc(m, func(h Mark) bool {
		return h.Server == k.Server && h.Owner == k.Owner && h.Beat >= k.Beat
	})
}

// alike reports whether m and other are the same, except for beats.
func (m Marks) alike(other Marks) bool {
	return slices.EqualFunc(m, other, func(a, b Mark) bool { return a.Server == b.Server && a.Owner == b.Owner })
}
