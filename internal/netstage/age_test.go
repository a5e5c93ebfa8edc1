package netstage_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
	"mcmw/internal/netstage"
	"mcmw/internal/stats"
)

// halves are requests whose second half the client sends late, and their replies.
var halves = []struct{ first, rest, reply string }{
	{"set k 0 0 3\r\na", "bc\r\n", "STORED\r\n"},
	{"set k 0 0 2000000\r\na", strings.Repeat("x", 1_999_999) + "\r\n", "SERVER_ERROR object too large for cache\r\n"},
}

// sendLate begins a request on a new connection, lets the connection exceed its maximum age, calls meanwhile, and ends
// the request. It returns all that was answered: nothing if the machine was so busy that the connection was too old
// before the request began.
func sendLate(t *testing.T, m *mwtest.MW, first, rest string, meanwhile func()) (reply string) {
	t.Helper()
	c := m.Dial(t)
	require.NoError(t, c.Send([]byte(first)))
	// Each of these takes half of the age at least.
	for range 3 {
		rest, err := m.Dial(t).Rest()
		require.NoError(t, err, "an orderly end")
		require.Empty(t, rest)
	}
	meanwhile()
	_ = c.Send([]byte(rest))
	reply, err := c.Rest()
	require.NoError(t, err)
	return reply
}

func TestAnOldConnectionIsClosedBetweenRequests(t *testing.T) {
	m := start(t, middleware.Options{ClientOptions: netstage.ClientOptions{MaxAge: 100 * time.Millisecond}})
	for _, half := range halves {
		reply := ""
		for reply == "" {
			reply = sendLate(t, m, half.first, half.rest, func() {})
		}
		require.Equal(t, half.reply, reply)
	}
	require.Eventually(t, func() bool { return closed(m, stats.CloseAge) >= 8 }, mctest.Patience, mctest.Tick)
}

func TestADrainWaitsForTheRequestOfAConnectionThatIsTooOld(t *testing.T) {
	half := halves[0]
	reply := ""
	for reply == "" {
		m := start(t, middleware.Options{
			ClientOptions: netstage.ClientOptions{MaxAge: 100 * time.Millisecond},
			DrainTimeout:  mctest.Patience,
		})
		reply = sendLate(t, m, half.first, half.rest, func() {
			m.Cancel()
			require.Eventually(t, func() bool { return !m.IsReady() }, mctest.Patience, mctest.Tick)
		})
		require.NoError(t, m.Stop())
		require.Zero(t, closed(m, stats.CloseError))
	}
	require.Equal(t, half.reply, reply)
}

func TestConnectionsOpenedAtOnceAreClosedAtDifferentTimes(t *testing.T) {
	const age = time.Hour
	var parts [4]int
	for range 4000 {
		d := netstage.Lifetime(age)
		require.True(t, age/2 <= d && d <= age, d)
		parts[min(int((d-age/2)*8/age), 3)]++
	}
	for _, n := range parts {
		assert.InDelta(t, 1000, n, 200, "a quarter each: %v", parts)
	}
	require.LessOrEqual(t, netstage.Lifetime(1), time.Duration(1))
}
