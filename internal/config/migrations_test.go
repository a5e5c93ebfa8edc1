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
	const start = "start: 2026-12-01T10:00:00Z}"
	for entry, problem := range map[string]string{
		"{pool: one, " +
			start: "the mapping has a pool, and not exactly one of cold, the servers to fill, and zone, the zone to " +
			"fill",
		"{pool: one, cold: a, zone: z, " +
			start: "the mapping has a pool, and not exactly one of cold, the servers to fill, and zone, the zone to " +
			"fill",
		"{cold: a, " + start:                          `the mapping has no key "pool"`,
		"{pool: one, cold: a, to: one, " + start:      `the mapping has "to" together with pool, cold or zone`,
		"{pool: one, cold: a, copy: missed, " + start: `the mapping has "copy" together with pool, cold or zone`,
		"{pool: one, cold: a, cold: b, " + start:      `the mapping has the key "cold" twice`,
		"{pool: one, cold: [], " + start:              "the mapping has a cold without a server",
		"{pool: one, cold: [[a]], " + start:           "the mapping has a cold that is not a list of names of servers",
		"{pool: one, cold: x, " +
			start: `pool "one" has no server "x", or the name is given twice; accepted: some of ["a" "b" "c"], each once`,
		"{pool: one, cold: [a, a], " + start:       `pool "one" has no server "a", or the name is given twice`,
		"{pool: one, zone: y, " + start:            `no server of pool "one" is in zone "y"`,
		"{pool: two, cold: a, " + start:            `the pool "two" is unknown`,
		"{pool: one, cold: [a, b, c], " + start:    `it fills all servers of pool "one"`,
		"{pool: one, cold: a, within: 1, " + start: "within is 1; accepted: from 0 to less than 1",
	} {
		lines := refused(t, sources{yaml: pools + "  - " + entry + "\n"})
		require.Regexp(t, "^"+literal("mcmw.yaml:7: migrations: "+problem), lines[0], entry)
	}
}

func TestInvalidMigrationsAreRefusedWithTheirLine(t *testing.T) {
	const times = "start: 2026-12-01T10:00:00Z, end: 2026-12-01T12:00:00Z}"
	for entries, message := range map[string]string{
		"{from: old, to: x, " +
			times: `mcmw.yaml:9: migrations: the pool "x" is unknown; accepted: two of ["old" "new" "third"]`,
		"{from: old, to: old, " + times: `mcmw.yaml:9: migrations: from and to are both pool "old"`,
		"{from: old, to: third, " +
			times: `mcmw.yaml:9: migrations: pool "third" has writers one; accepted: writers several`,
		"{from: old, to: new, start: 2026-12-01T10:00:00Z, end: 2026-12-01T10:04:00Z}": `mcmw.yaml:9: migrations: it lasts from 2026-12-01T10:00:00Z to 2026-12-01T10:04:00Z; accepted: an end at least 5m0s after the start`,
		"{from: old, to: new, start: soon, end: 2026-12-01T10:05:00Z}":                 `mcmw.yaml:9: migrations: the mapping has the start "soon", which is not a time`,
		"{from: old, to: new, start: 2026-12-01T10:05:00Z}":                            `mcmw.yaml:9: migrations: the mapping has no key "end"; accepted: entries`,
		"{from: old, too: new, " +
			times: `mcmw.yaml:9: migrations: the mapping has the unknown key "too"`,
		"{from: old, to: new, " + times + "\n  - {from: new, to: old, " +
			times: `mcmw.yaml:10: migrations: it overlaps with the migration from pool "old" to pool "new"`,
		"{from: old, to: new, copy: some, " +
			times: `mcmw.yaml:9: migrations: the mapping has the copy "some"; accepted: all, missed`,
		"{from: old, to: new, within: 0.1, " +
			times: `mcmw.yaml:9: migrations: the mapping has within, which belongs to copy: missed`,
		"{from: old, to: new, copy: missed, within: 2, " +
			times: `mcmw.yaml:9: migrations: within is 2; accepted: from 0 to less than 1`,
		"{from: old, to: new, copy: missed, within: nan, " +
			times: `mcmw.yaml:9: migrations: within is NaN; accepted: from 0 to less than 1`,
		"{from: old, to: new, copy: missed, within: x, " +
			times: `mcmw.yaml:9: migrations: the mapping has the within "x", which is not a number`,
		"{from: old, to: old, copy: missed, " +
			times: `mcmw.yaml:9: migrations: from and to are both pool "old"`,
		"{from: old, to: new, copy: missed, start: 2026-12-01T10:00:00Z}\n  - {from: new, to: old, start: " +
			"2027-12-01T10:00:00Z, end: 2027-12-02T10:00:00Z}": `mcmw.yaml:10: migrations: it overlaps with the migration from pool "old" to pool "new", which has no end`,
		"{from: old, to: new, back: 2026-12-01T15:00:00Z, " +
			times: `mcmw.yaml:9: migrations: the mapping has back, which belongs to copy: missed`,
		"{from: old, to: new, copy: missed, back: 2026-12-01T15:00:00Z, " +
			times: `mcmw.yaml:9: migrations: back is 2026-12-01T15:00:00Z; accepted: only in a warm-up (copy: missed) without an end`,
		"{from: old, to: new, copy: missed, start: 2026-12-01T10:00:00Z, back: 2026-12-01T10:03:59Z}": `mcmw.yaml:9: migrations: back is 2026-12-01T10:03:59Z; accepted: at least 4 change-steps of 1m0s after the start`,
		"{from: old, to: new, copy: missed, start: 2026-12-01T10:00:00Z, back: 2026-12-01T11:00:00Z}\n  - {from: " +
			"old, to: new, start: 2027-12-01T10:00:00Z, end: 2027-12-02T10:00:00Z}": `mcmw.yaml:10: migrations: it shares a pool with the migration from pool "old" to pool "new", and one of them goes back`,
		"old": `mcmw.yaml:9: migrations: "old" is not a migration; accepted: entries`,
	} {
		requireRefused(t, migrating+"  - "+entries+"\n", message)
	}
	require.Contains(t, refused(t,
		sources{yaml: "servers: [a]\nmigrations:\n  - {from: old, to: new, " + times + "\n"})[0], "given without pools")
}
