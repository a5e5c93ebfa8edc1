package discover_test

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"mcmw/internal/discover"
	"mcmw/internal/route"
)

func TestEachKindOfChangeOfTheServersIsDistinguished(t *testing.T) {
	a, b, c := server("a", "10.0.0.1:1"), server("b", "10.0.0.2:1"), server("c", "10.0.0.3:1")
	with := func(s route.Server, change func(*route.Server)) route.Server {
		change(&s)
		return s
	}
	for name, tc := range map[string]struct {
		old, now []route.Server
		want     discover.Changes
	}{
		"none":          {[]route.Server{a, b}, []route.Server{a, b}, discover.Changes{}},
		"another order": {[]route.Server{a, b}, []route.Server{b, a}, discover.Changes{}},
		"weight 0 is 1": {
			[]route.Server{a},
			[]route.Server{with(a, func(s *route.Server) { s.Weight = 0 })},
			discover.Changes{},
		},
		"all are new": {nil, []route.Server{a, b}, discover.Changes{Added: []string{"a", "b"}}},
		"added":       {[]route.Server{a}, []route.Server{c, a, b}, discover.Changes{Added: []string{"c", "b"}}},
		"removed":     {[]route.Server{a, b, c}, []route.Server{b}, discover.Changes{Removed: []string{"a", "c"}}},
		"renamed": {
			[]route.Server{a, b},
			[]route.Server{with(a, func(s *route.Server) { s.Name = "x" }), b},
			discover.Changes{Renamed: []string{"a -> x"}},
		},
		"moved": {
			[]route.Server{a, b},
			[]route.Server{with(a, func(s *route.Server) { s.Addr = "10.9.0.1:1" }), b},
			discover.Changes{Moved: []string{"a: 10.0.0.1:1 -> 10.9.0.1:1"}},
		},
		"re-weighted": {
			[]route.Server{a, b},
			[]route.Server{a, with(b, func(s *route.Server) { s.Weight = 3 })},
			discover.Changes{Reweighted: []string{"b: 1 -> 3"}},
		},
		"renamed and re-weighted": {
			[]route.Server{a},
			[]route.Server{with(a, func(s *route.Server) { s.Name, s.Weight = "x", 2 })},
			discover.Changes{Renamed: []string{"a -> x"}, Reweighted: []string{"x: 1 -> 2"}},
		},
		"two change places": {
			[]route.Server{a, b},
			[]route.Server{
				with(a, func(s *route.Server) { s.Addr = b.Addr }),
				with(b, func(s *route.Server) { s.Addr = a.Addr }),
			},
			discover.Changes{Moved: []string{"a: 10.0.0.1:1 -> 10.0.0.2:1", "b: 10.0.0.2:1 -> 10.0.0.1:1"}},
		},
		"one takes the place of another": {
			[]route.Server{a, b},
			[]route.Server{with(b, func(s *route.Server) { s.Addr = a.Addr })},
			discover.Changes{Moved: []string{"b: 10.0.0.2:1 -> 10.0.0.1:1"}, Removed: []string{"a"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := discover.Compare(tc.old, tc.now)
			require.Equal(t, tc.want, got)
			require.Equal(t, !reflect.ValueOf(got).IsZero(), got.Any())
		})
	}
}
