package config_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mcmw/internal/follow"
)

func TestAPoolFollowsWithTheMemoryOfTheOneThatItFollows(t *testing.T) {
	c := sources{
		yaml: "pools:\n  main:\n    servers: [a]\n    follow-memory: 1m\n" +
			"    follow: [{pool: other, what: purges, doubt: flush, hold: 1500ms}]\n  other: {servers: [b]}\n" +
			"routes: [{default: main}]\n",
	}.load(t)
	o := serving(c)
	require.Len(t, o.Pools, 1)
	require.Len(t, o.Follows, 1)
	f := o.Follows[0]
	require.Equal(t, "main", f.Of)
	require.Equal(t, "other", f.To.Name)
	require.Equal(t, follow.Options{
		What: follow.Purges, Flush: true, Memory: 1 << 20, Hold: 1500 * time.Millisecond,
	}, f.Options)
	requireReread(t, c)
}
