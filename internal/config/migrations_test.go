package config_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mcmw/internal/middleware"
)

const migrating = "change-step: 1m\nwriters: several\npools:\n  old: {servers: [a]}\n  new: {servers: [b]}\n  third: " +
	"{servers: [c], writers: one}\nroutes: [{default: old}]\nmigrations:\n"

func TestMigrationsAreReadPrintedAndShownInChanges(t *testing.T) {
	c := sources{yaml: migrating +
		"  - {from: old, to: new, start: 2026-12-01T10:00:00+01:00, end: 2026-12-01T12:00:00Z}\n"}.load(t)
	require.Equal(t, []middleware.Migration{
		{
			From: "old", To: "new", Start: time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC),
			End: time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC),
		},
	}, serving(c).Migrations)
	requireReread(t, c)

	without := sources{yaml: migrating + "  []\n"}.load(t)
	require.NoError(t, without.CheckReload(c))
	changes := without.Changes(c)
	require.Len(t, changes, 1)
	require.Equal(t, "migrations: old to new from 2026-12-01T09:00:00Z until 2026-12-01T12:00:00Z -> ",
		changes[0].String())
	require.NotEqual(t, c.Fingerprint(), without.Fingerprint())
}

func TestAWarmUpIsReadPrintedAndShownInChanges(t *testing.T) {
	const entry = "  - {from: old, to: new, start: 2026-12-01T10:00:00Z, copy: missed"
	g := middleware.Migration{
		From: "old", To: "new", Start: time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC),
		WarmsUp: true, Within: 0.01,
	}
	c := sources{yaml: migrating + entry + "}\n"}.load(t)
	require.Equal(t, []middleware.Migration{g}, serving(c).Migrations)
	requireReread(t, c)

	back := g
	back.Back = g.Start.Add(time.Hour)
	goesBack := sources{yaml: migrating + entry + ", back: 2026-12-01T11:00:00Z}\n"}.load(t)
	require.Equal(t, []middleware.Migration{back}, serving(goesBack).Migrations)
	require.Equal(t,
		"migrations: old to new from 2026-12-01T10:00:00Z copying the keys that are missed, within 0.01 -> "+
			"old to new from 2026-12-01T10:00:00Z copying the keys that are missed, within 0.01, back at "+
			"2026-12-01T11:00:00Z", goesBack.Changes(c)[0].String())
	requireReread(t, goesBack)

	g.Within, g.End = 0.05, g.Start.Add(2*time.Hour)
	ending := sources{yaml: migrating + entry + ", within: 0.05, end: 2026-12-01T12:00:00Z}\n"}.load(t)
	require.Equal(t, []middleware.Migration{g}, serving(ending).Migrations)
	require.NoError(t, ending.CheckReload(c))
	require.Equal(t,
		"migrations: old to new from 2026-12-01T10:00:00Z copying the keys that are missed, within 0.01 -> "+
			"old to new from 2026-12-01T10:00:00Z until 2026-12-01T12:00:00Z copying the keys that are missed, "+
			"within 0.05",
		ending.Changes(c)[0].String())
}

func TestAWarmUpOfServersOfAPoolIsReadPrintedAndShownInChanges(t *testing.T) {
	const pools = "change-step: 1m\nwriters: several\npools:\n  one: {servers: [a, b@z, c@z], replicas: 2}\nroutes: " +
		"[{default: one}]\nmigrations:\n"
	g := middleware.Migration{
		From: "one", To: "one", Cold: "a,b", Start: time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC),
		WarmsUp: true, Within: 0.01,
	}
	for text, want := range map[string]middleware.Migration{
		"cold: [a, b]": g,
		"cold: a":      {From: "one", To: "one", Cold: "a", Start: g.Start, WarmsUp: true, Within: 0.01},
		"zone: z":      {From: "one", To: "one", Zone: "z", Start: g.Start, WarmsUp: true, Within: 0.01},
	} {
		c := sources{yaml: pools + "  - {pool: one, " + text + ", start: 2026-12-01T10:00:00Z}\n"}.load(t)
		require.Equal(t, []middleware.Migration{want}, serving(c).Migrations)
		requireReread(t, c)
	}
	none := sources{yaml: strings.TrimSuffix(pools, "migrations:\n")}.load(t)
	for text, told := range map[string]string{
		"cold: [a, b]": "a, b of one from 2026-12-01T10:00:00Z until 2026-12-01T12:00:00Z, within 0.05",
		"zone: z":      "zone z of one from 2026-12-01T10:00:00Z until 2026-12-01T12:00:00Z, within 0.05",
	} {
		c := sources{yaml: pools + "  - {pool: one, " + text +
			", start: 2026-12-01T10:00:00Z, end: 2026-12-01T12:00:00Z, within: 0.05}\n"}.load(t)
		require.Equal(t, "migrations:  -> "+told, c.Changes(none)[0].String())
	}
}
