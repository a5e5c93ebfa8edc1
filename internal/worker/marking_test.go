package worker_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
)

// Where nobody else writes, every replica shows what one server would.
func TestWithOneWriterEveryReplicaHoldsWhatACommandMarksOrMakes(t *testing.T) {
	servers := mctest.StartNewMemcacheds(t, 3)
	m := mwtest.Start(t, middleware.Options{Servers: mwtest.Servers(servers...), Writers: middleware.WritersOne})
	c := m.Dial(t)
	require.Equal(t, "STORED\r\n", c.MustDo(t, "set marked 0 0 1\r\nx\r\n"))
	require.Equal(t, "HD\r\n", c.MustDo(t, "md marked I T30\r\n"))
	require.Equal(t, "EN\r\n", c.MustDo(t, "mg missing f\r\n"))
	require.Equal(t, "HD W\r\n", c.MustDo(t, "mg made N30\r\n"))
	for i, s := range servers {
		for key, want := range map[string]string{"marked": "x", "made": ""} {
			value, has := s.Get(key)
			require.True(t, has, "server %d lacks %s", i+1, key)
			require.Equal(t, want, value)
		}
	}
}
