package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/admin"
	"mcmw/internal/mctest"
	"mcmw/internal/stats"
)

func TestTheStatusOfMigrationsComesFromARunningMiddleware(t *testing.T) {
	t.Chdir(t.TempDir())
	servers := mctest.StartNewMemcacheds(t, 2)
	at := time.Now().Add(time.Hour).UTC()
	require.NoError(t, os.WriteFile("mcmw.yaml",
		fmt.Appendf(nil,
			"writers: several\npools:\n  old: {servers: [%q]}\n  new: {servers: [%q]}\nroutes: [{default: old}]\n"+
				"migrations: [{from: old, to: new, start: %s, end: %s}]\n", servers[0].Addr(), servers[1].Addr(),
			at.Format(time.RFC3339), at.Add(time.Hour).Format(time.RFC3339)), 0o600))
	s := start(t, "serve", "-p", "0", "--config", "mcmw.yaml", "--admin", "127.0.0.1:0")
	address := awaitEntry(t, s.stderr, "admin server listens").Address
	awaitEntry(t, s.stderr, "ready")
	code, stdout, stderr := execute(t, "migrate", "status", address)
	require.Equal(t, exitOK, code, stderr)
	require.Equal(t, fmt.Sprintf("old to new: phase waiting until %[1]s\n  next: it starts at %[1]s\n",
		at.Format(time.RFC3339)), stdout)
	code, stdout, stderr = execute(t, "migrate", "status", address, "--json")
	require.Equal(t, exitOK, code, stderr)
	require.Contains(t, stdout, `"phase": "waiting"`)
}

func TestTheStatusAndTheMetricsOfAWarmUpSayWhenThePoolIsWarm(t *testing.T) {
	t.Chdir(t.TempDir())
	servers := mctest.StartNewMemcacheds(t, 2)
	require.NoError(t, os.WriteFile("mcmw.yaml",
		fmt.Appendf(nil,
			"writers: several\nchange-step: 1m\npools:\n  warm: {servers: [%q]}\n  cold: {servers: [%q]}\nroutes: "+
				"[{default: warm}]\n"+
				"migrations: [{from: warm, to: cold, start: %s, copy: missed, within: 0.2}]\n", servers[0].Addr(),
			servers[1].Addr(), time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)), 0o600))
	// On a busy machine a server may not answer for seconds; with short timeouts some keys would not be copied.
	s := start(t, "serve", "-p", "0", "--config", "mcmw.yaml", "--admin", "127.0.0.1:0", "--timeout", "2m",
		"--connect-timeout", "2m", "--stall-after", "0s")
	address := awaitEntry(t, s.stderr, "admin server listens").Address
	c := mctest.MustDial(t, awaitEntry(t, s.stderr, "ready").Listen[0])
	const keys = 100
	get := "get"
	for i := range keys {
		require.Equal(t, "STORED\r\n",
			mctest.MustDial(t, servers[0].Addr()).MustDo(t, fmt.Sprintf("set %d 0 0 1\r\n1\r\n", i)))
		get += fmt.Sprintf(" %d", i)
	}
	status := func() string {
		code, stdout, stderr := execute(t, "migrate", "status", address)
		require.Equal(t, exitOK, code, stderr)
		return stdout
	}
	says := func(text string) { // the status is at most a second old
		t.Helper()
		last := ""
		if !assert.Eventually(t, func() bool { last = status(); return regexp.MustCompile(text).MatchString(last) },
			mctest.Patience, 20*time.Millisecond) {
			require.FailNow(t, "the status never says "+text, "%s", last)
		}
	}
	metrics := func() string {
		reply, err := http.Get("http://" + address + "/metrics")
		require.NoError(t, err)
		defer reply.Body.Close()
		text, err := io.ReadAll(reply.Body)
		require.NoError(t, err)
		return string(text)
	}
	direct, probes := mctest.MustDial(t, servers[0].Addr()), 0
	require.Eventually(t, func() bool { // reads count only after the first look at the migration
		probes++
		require.Equal(t, "STORED\r\n", direct.MustDo(t, fmt.Sprintf("set probe-%d 0 0 1\r\n1\r\n", probes)))
		c.MustDo(t, fmt.Sprintf("get probe-%d\r\n", probes))
		return strings.Contains(status(), "cold 0.00 %, both 100.00 %")
	}, mctest.Patience, 20*time.Millisecond)
	c.MustDo(t, get+" absent\r\n")
	says(`hit ratio in the last minute: cold 0.00 %, both 99.\d\d %(.|\n)*next: reads fill cold until its hit ratio is within 20.00 % of the ratio of both`)
	require.Contains(t, metrics(), "mcmw_migration_warm{from=\"warm\",to=\"cold\"} 0\n")
	says(fmt.Sprintf("; %d keys copied", keys+probes))
	for range 19 {
		c.MustDo(t, get+" absent\r\n")
	}
	says(`hit ratio in the last minute: cold [89]\d.\d\d %, both 99.\d\d %(.|\n)*next: cold is warm: set an end of the migration in the file of every mcmw`)
	for _, line := range []string{
		`mcmw_migration_warm{from="warm",to="cold"} 1`,
		fmt.Sprintf(`mcmw_migration_keys_copied_total{from="warm",to="cold"} %d`, keys+probes),
		`mcmw_migration_reads_total{found="new",from="warm",to="cold"} 1900`,
		fmt.Sprintf(`mcmw_migration_reads_total{found="old",from="warm",to="cold"} %d`, keys+probes),
		`mcmw_migration_reads_total{found="neither",from="warm",to="cold"} 20`,
		`mcmw_migration_phase{from="warm",phase="warm-up",to="cold"} 1`,
	} {
		require.Contains(t, metrics(), line+"\n")
	}
}

func TestAMigrationThatIsLateIsAnError(t *testing.T) {
	var out bytes.Buffer
	late := []admin.Migration{{
		Migration: stats.Migration{From: "old", To: "new"}, Text: "old to new: phase copy",
		Next: "give it more time", Warning: true,
	}}
	require.EqualError(t, showMigrations(&out, late, false), "the migration from old to new needs attention")
	require.Equal(t, "old to new: phase copy\n  next: give it more time\n", out.String())
	out.Reset()
	require.NoError(t, showMigrations(&out, nil, false))
	require.Equal(t, "no migrations are configured\n", out.String())
}
