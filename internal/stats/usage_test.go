package stats

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRecentUseIsHalvedAndForgetsRoutesThatAreGone(t *testing.T) {
	u := NewUsage(":")
	routes := []Route{{Prefix: "a:"}, {Prefix: "b:"}}
	u.setRoutes(routes, func(key []byte) string { return string(key[:2]) })
	start := u.recent.halved
	for key, n := range map[string]uint64{"a:1": 2, "b:1": 4, "c:1": 1} {
		u.Add([]byte(key), "anna", Use{Requests: n}, start)
	}
	named := func(name string, n uint64) NamedUse { return NamedUse{name, Use{Requests: 64 * n}} }
	now := start + int64(halfLife)
	require.Equal(t, RecentUse{
		Seconds:  halfLife.Seconds() / 2,
		Routes:   []NamedUse{named("b:", 2), named("a:", 1), {DefaultRoute, Use{Requests: 32}}},
		Users:    []NamedUse{{"anna", Use{Requests: 64 * 7 / 2}}},
		Prefixes: []NamedUse{named("b:", 2), named("a:", 1)},
		All:      Use{Requests: 64 * 7 / 2},
	}, u.Recent(2, now))
	require.EqualValues(t, 64*4, u.Snapshot().Routes["b:"].Requests, "since the start")

	u.setRoutes(routes[:1], u.routeOf)
	require.Equal(t, []NamedUse{named("a:", 1), {DefaultRoute, Use{Requests: 32}}}, u.Recent(0, now).Routes)
	u.setRoutes(nil, nil)
	require.Nil(t, u.Recent(0, now).Routes, "there is one route")
}

func TestARouteWhosePrefixIsDefaultIsCountedOnItsOwn(t *testing.T) {
	u := NewUsage("")
	u.setRoutes([]Route{{Prefix: "default"}, {Default: true}}, func(key []byte) string {
		return map[bool]string{true: "default"}[string(key) == "default-1"]
	})
	for key, n := range map[string]uint64{"default-1": 1, "a": 2} {
		u.Add([]byte(key), "", Use{Requests: n}, u.recent.halved)
	}
	require.Equal(t, []NamedUse{
		{DefaultRoute, Use{Requests: 64 * 2}}, {"prefix default", Use{Requests: 64}},
	}, u.Recent(0, u.recent.halved).Routes)
	require.EqualValues(t, 64, u.Snapshot().Routes["prefix default"].Requests)
}
