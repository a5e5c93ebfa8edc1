package config_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mcmw/internal/config"
	"mcmw/internal/follow"
)

// following returns a configuration of three pools, of which one is a shadow, with follow at line 4.
func following(entries string) string {
	return "pools:\n  main:\n    servers: [a]\n    follow: [" + entries + "]\n  other: {servers: [b]}\n" +
		"  test: {servers: [c]}\nroutes: [{default: main}]\nshadows: [{of: main, to: test, share: 1}]\n"
}

func TestAPoolFollowsWithTheMemoryOfTheOneThatItFollows(t *testing.T) {
	c := sources{
		yaml: following("{pool: other, what: purges, doubt: flush, hold: 1500ms}]\n    follow-memory: 1m #"),
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

func TestAPoolThatCannotFollowIsRefusedWithItsLine(t *testing.T) {
	for entries, message := range map[string]string{
		"{pool: nobody, what: all}": `the pool "nobody" is unknown; accepted: one of main, other, test`,
		"{pool: test, what: all}":   `pool "test" is a shadow, so it can't follow; accepted: a pool that only follows`,
	} {
		requireRefused(t, following(entries), "mcmw.yaml:4: pools.main.follow: "+message)
	}
	for entries, message := range map[string]string{
		"{pool: other, what: some}": `has the key "what" with "some"`,
		"{what: all}":               `has no key "pool"`,
		"{pool: other, what: all}, {pool: other, what: deletes}": `has the pool "other" twice`,
		"{pool: other, what: all, doubt: no}":                    `has the key "doubt" with "no"`,
		"{pool: other, what: all, hold: 5s}":                     `has the key "hold", and all is copied`,
		"{pool: other, what: deletes, hold: 5}":                  `has the key "hold" with "5"`,
		"{pool: other, what: deletes, hold: 2h}":                 `has the key "hold" with "2h"`,
	} {
		_, err := config.Load(sources{yaml: following(entries)}.parsed(t))
		require.ErrorContains(t, err, message)
	}
}
