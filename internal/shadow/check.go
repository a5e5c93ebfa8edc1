package shadow

import (
	"fmt"
	"slices"
	"strings"

	"mcmw/internal/refusal"
)

// Entry says that the pool To is the shadow of the pool Of.
type Entry struct {
	Of, To string
	// Share is the part of the keys whose requests are copied, above 0, up to 1.
	Share float64
}

// Check returns a *refusal.Error about the first wrong entry. pools are all pools, routed those that have keys.
func Check(pools, routed []string, entries []Entry) error {
	for i, e := range entries {
		refuse := func(text string, args ...any) error {
			return refusal.Of(fmt.Sprintf("shadows[%d]", i), text, args...)
		}
		has := func(value func(Entry) string) bool {
			return slices.ContainsFunc(entries[:i], func(o Entry) bool { return value(o) == value(e) })
		}
		for _, name := range []string{e.Of, e.To} {
			if !slices.Contains(pools, name) {
				return refuse("the pool %q is unknown; accepted: one of %s", name, strings.Join(pools, ", "))
			}
		}
		switch {
		case e.Of == e.To:
			return refuse("pool %q can't be its own shadow; accepted: another pool, which has no route", e.To)
		case slices.Contains(routed, e.To):
			return refuse("pool %q has a route, so it can't be a shadow; accepted: a pool without a route", e.To)
		case !slices.Contains(routed, e.Of):
			return refuse("pool %q has no route, so it gets no requests to copy; accepted: one of %s", e.Of,
				strings.Join(routed, ", "))
		case has(func(e Entry) string { return e.Of }):
			return refuse("pool %q has two shadows; accepted: one", e.Of)
		case has(func(e Entry) string { return e.To }):
			return refuse("pool %q is the shadow of two pools; accepted: of one pool", e.To)
		case !(e.Share > 0 && e.Share <= 1):
			return refuse("a share of %v; accepted: above 0, up to 1", e.Share)
		}
	}
	return nil
}
