package middleware

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"mcmw/internal/backend"
	"mcmw/internal/plan"
	"mcmw/internal/route"
)

// featureNames are how docs/routes.md calls the features.
var featureNames = [...]string{
	strips: "`strip`", servesReads: "being a pool for `reads`",
	largeValues: "`large-values`", migrates: "a migration or warm-up", warmsUp: "a warm-up elsewhere",
	hasGutter: "a gutter", isGutter: "being a gutter", sharesGutter: "a gutter with other keys",
	fromItsGutter: "a migration from its gutter", readsGutter: "`reads` from its gutter",
	hasShadow: "a shadow", isShadow: "being a shadow", hasRoute: "a route", isFollowed: "`follow`",
	follows: "following another pool", trusts: "`rejoin: trust`",
	holds: "`holds`",
}

func TestThePageOnRoutesSaysWhatAPoolCannotHaveTogether(t *testing.T) {
	var table strings.Builder
	table.WriteString("| a pool with | can't have |\n|---|---|\n")
	for f := range feature(len(featureNames)) {
		var others []string
		for _, a := range apart {
			if a.feature == f {
				others = append(others, featureNames[a.from])
			}
		}
		if others != nil {
			fmt.Fprintf(&table, "| %s | %s |\n", featureNames[f], strings.Join(others, ", "))
		}
	}
	page, err := os.ReadFile("../../docs/routes.md")
	require.NoError(t, err)
	require.Contains(t, string(page), table.String())
}

// Each pair is refused with its own text, and each feature alone is accepted.
func TestEachPairOfFeaturesThatIsApartIsRefused(t *testing.T) {
	settings := map[feature]func(o *Options){
		strips:      func(o *Options) { o.Routes.Prefixes[0].Strip = true },
		servesReads: func(o *Options) { o.Routes.Reads = "it" },
		largeValues: func(o *Options) { o.Pools[0].Large = plan.Large{Limit: 1} },
		migrates:    func(o *Options) { o.Migrations = append(o.Migrations, Migration{From: "other", To: "it"}) },
		warmsUp: func(o *Options) {
			o.Migrations = append(o.Migrations, Migration{From: "other", To: "third", WarmsUp: true})
		},
		hasGutter:    func(o *Options) { o.Pools[0].Options.Gutter = "third" },
		isGutter:     func(o *Options) { o.Pools[1].Options.Gutter = "it" },
		sharesGutter: func(o *Options) { o.Pools[0].Options.Gutter, o.Pools[1].Options.Gutter = "third", "third" },
		fromItsGutter: func(o *Options) {
			o.Migrations = append(o.Migrations, Migration{From: "third", To: "it"})
		},
		readsGutter: func(o *Options) { o.Routes.Prefixes[0].Reads = "third" },
		hasShadow:   func(o *Options) { o.Shadows = append(o.Shadows, ShadowOptions{Of: "it"}) },
		isShadow: func(o *Options) {
			to := PoolOptions{Pool: route.Pool{Name: "it"}}
			o.Shadows = append(o.Shadows, ShadowOptions{Of: "other", To: to})
		},
		hasRoute: func(o *Options) {
			o.Routes.Prefixes = append(o.Routes.Prefixes, route.Prefix{Prefix: "h:", Pool: "it"})
		},
		trusts:     func(o *Options) { o.Pools[0].Rejoin = backend.RejoinTrust },
		holds:      func(o *Options) { o.Pools[0].Holds = true },
		isFollowed: func(o *Options) { o.Follows = append(o.Follows, FollowOptions{Of: "it"}) },
		follows: func(o *Options) {
			to := PoolOptions{Pool: route.Pool{Name: "it"}}
			o.Follows, o.Routes.Prefixes = append(o.Follows, FollowOptions{Of: "other", To: to}), nil
		},
	}
	with := func(features ...feature) (texts []string) {
		var o Options
		for _, name := range []string{"it", "other", "third"} {
			o.Pools = append(o.Pools, PoolOptions{Pool: route.Pool{Name: name}})
		}
		o.Routes = route.Routes{Default: "other", Prefixes: []route.Prefix{{Prefix: "i:", Pool: "it"}}}
		for _, f := range features {
			settings[f](&o)
		}
		for _, err := range o.checkTogether() {
			texts = append(texts, err.Error())
		}
		return texts
	}
	for f := range feature(len(featureNames)) {
		require.Empty(t, with(f), featureNames[f])
	}
	for _, a := range apart {
		texts := with(a.feature, a.from)
		require.NotEmpty(t, texts, "%s, %s", featureNames[a.feature], featureNames[a.from])
		require.NotContains(t, strings.Join(texts, ""), "{")
	}
}
