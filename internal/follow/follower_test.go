package follow

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/backend"
	"mcmw/internal/protocol"
	"mcmw/internal/request"
	"mcmw/internal/route"
	"mcmw/internal/stats"
)

// placed returns a router for the servers with these names, of which one holds a key.
func placed(t *testing.T, names ...string) *route.Router {
	var servers []route.Server
	for _, name := range names {
		servers = append(servers, route.Server{Name: name, Addr: "127.0.0.1:1"})
	}
	router, err := route.New(servers, route.Options{Replicas: 1})
	require.NoError(t, err)
	return router
}

func TestAWriteIsOwedAsItsEffectAndWhatIsDeliveredSay(t *testing.T) {
	const none, deleted, copied = "", "delete", "copy"
	for _, tc := range []struct {
		text                 string
		result               stats.Result
		all, deletes, purges string
	}{
		{"set k 0 0 1\r\na\r\n", stats.ResultOK, copied, deleted, none},
		{"set k 0 0 1\r\na\r\n", stats.ResultServerError, deleted, deleted, none},
		{"set k 0 0 1\r\na\r\n", stats.ResultClientError, none, none, none},
		{"add k 0 0 1\r\na\r\n", stats.ResultNotStored, none, none, none},
		{"incr k 1\r\n", stats.ResultMiss, none, none, none},
		{"delete k\r\n", stats.ResultOK, copied, deleted, deleted},
		{"delete k\r\n", stats.ResultServerError, deleted, deleted, deleted},
		{"touch k 9\r\n", stats.ResultOK, copied, none, none},
		{"gat 9 k\r\n", stats.ResultOK, copied, none, none},
		{"md k P\r\n", stats.ResultOK, none, none, none},
	} {
		for what, want := range map[string]string{All: tc.all, Deletes: tc.deletes, Purges: tc.purges} {
			got := none
			for _, d := range owed(t, what, tc.text, tc.result).all() {
				got = map[bool]string{true: copied, false: deleted}[d.Copy]
			}
			assert.Equal(t, want, got, "%q, answered with %v, where %s is delivered", tc.text, tc.result, what)
		}
	}
}

func TestAServerThatGetsKeysIsOwedWhatTheirHoldersAre(t *testing.T) {
	for name, after := range map[string][]string{
		"one joins": {"a", "b", "c"}, "one leaves": {"a"}, "one is replaced": {"a", "c"}, "nothing changes": {"a", "b"},
	} {
		t.Run(name, func(t *testing.T) {
			f := New(Options{What: All, Memory: 1 << 20}, nil, slog.New(slog.DiscardHandler))
			f.Place(placed(t, "a", "b"), backend.Options{})
			for i := range 100 {
				f.owe(fmt.Appendf(nil, "key-%d", i), true, time.Now())
			}
			due, since := time.Now().Add(time.Hour), time.Now().Add(-time.Hour)
			b := f.targets[1].ledger
			b.Flush(due, time.Now())
			b.Doubt(since, time.Now())
			router := placed(t, after...)
			f.Place(router, backend.Options{})
			owed := make([]map[string]bool, len(after))
			for i, target := range f.targets {
				owed[i] = map[string]bool{}
				for _, d := range target.ledger.all() {
					owed[i][d.Key] = d.Copy
				}
				if len(after) > 1 && after[1] == "b" && i == 0 { // it gets no keys
					assert.Zero(t, target.ledger.flush)
					assert.Zero(t, target.ledger.doubt)
					continue
				}
				assert.Equal(t, due, target.ledger.flush.due, after[i])
				assert.Equal(t, since, target.ledger.doubt.since, after[i])
			}
			for i := range 100 {
				key := fmt.Sprintf("key-%d", i)
				assert.True(t, owed[router.Primary([]byte(key))][key], key)
			}
		})
	}
}

// The list of servers may change back: what a server keeps of a key that it does not hold would be read then.
func TestAServerThatLosesKeysIsOwedTheirDeletes(t *testing.T) {
	f := New(Options{What: All, Memory: 1 << 20}, nil, slog.New(slog.DiscardHandler))
	f.Place(placed(t, "a", "b"), backend.Options{})
	for i := range 100 {
		f.owe(fmt.Appendf(nil, "key-%d", i), true, time.Now())
	}
	a := f.targets[0].ledger
	delivering, _, _ := a.Take(mostDebts, false, time.Now())
	router := placed(t, "a", "b", "c")
	f.Place(router, backend.Options{})
	for _, d := range delivering { // the copies were under way
		a.Settle(d, Paid, time.Now())
	}
	lost := 0
	for _, d := range delivering {
		holds := router.Primary([]byte(d.Key)) == 0
		if !holds {
			lost++
		}
		deleted := func(e Debt) bool { return e.Key == d.Key && !e.Copy }
		assert.Equal(t, !holds, slices.ContainsFunc(a.all(), deleted), d.Key)
	}
	assert.Positive(t, lost)
	assert.Len(t, a.all(), lost)
}

func TestAServerInDoubtIsOwedTheDeletesOfKeysThatItListsAndHasLost(t *testing.T) {
	f := New(Options{What: All, Memory: 1 << 20}, nil, slog.New(slog.DiscardHandler))
	router := placed(t, "a", "b")
	f.Place(router, backend.Options{})
	for i := range 100 {
		f.oweListed(f.targets[0], fmt.Appendf(nil, "key-%d", i))
	}
	copies := 0
	for _, d := range f.targets[0].ledger.all() {
		assert.Equal(t, router.Primary([]byte(d.Key)) == 0, d.Copy, d.Key)
		if d.Copy {
			copies++
		}
	}
	assert.Positive(t, copies)
	assert.Less(t, copies, 100)
}

// owed returns what a server is owed after the request in text, where what is delivered.
func owed(t *testing.T, what, text string, result stats.Result) *Ledger {
	t.Helper()
	f := New(Options{What: what, Memory: 1 << 20}, nil, slog.New(slog.DiscardHandler))
	f.Place(placed(t, "a"), backend.Options{})
	l, r := protocol.Limits{}.WithDefaults(), protocol.Request{}
	_, _, err := l.Decode([]byte(text), &r)
	require.NoError(t, err)
	f.Wrote(&r, []byte("k"), result, request.Order{})
	return f.targets[0].ledger
}

func TestAFlushIsDueWhenTheServersOfThePoolThatIsFollowedTakeItToBe(t *testing.T) {
	before := time.Now()
	date := before.Add(time.Hour).Truncate(time.Second)
	for text, least := range map[string]time.Time{
		"flush_all\r\n": before, "flush_all 9\r\n": before.Add(9 * time.Second),
		"flush_all 2592000\r\n": before.Add(30 * 24 * time.Hour), fmt.Sprintf("flush_all %d\r\n", date.Unix()): date,
	} {
		due := owed(t, All, text, stats.ResultOK).flush.due
		assert.False(t, due.Before(least), "%q is due at %v", text, due)
		assert.False(t, due.After(least.Add(time.Since(before))), "%q is due at %v", text, due)
	}
}
