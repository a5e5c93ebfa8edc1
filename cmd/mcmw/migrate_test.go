package main

import (
	"bytes"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mcmw/internal/admin"
	"mcmw/internal/mctest"
	"mcmw/internal/stats"
)

func TestTheStatusOfMigrationsIsAskedOfARunningMiddleware(t *testing.T) {
	t.Chdir(t.TempDir())
	servers := mctest.StartNewMemcacheds(t, 2)
	at := time.Now().Add(time.Hour).UTC()
	require.NoError(t, os.WriteFile("mcmw.yaml", fmt.Appendf(nil, "writers: several\npools:\n  old: {servers: [%q]}\n  new: {servers: [%q]}\nroutes: [{default: old}]\n"+
		"migrations: [{from: old, to: new, start: %s, end: %s}]\n", servers[0].Addr(), servers[1].Addr(), at.Format(time.RFC3339), at.Add(time.Hour).Format(time.RFC3339)), 0o600))
	s := start(t, "serve", "-p", "0", "--config", "mcmw.yaml", "--admin", "127.0.0.1:0")
	address := awaitEntry(t, s.stderr, "admin server listens").Address
	awaitEntry(t, s.stderr, "ready")
	code, stdout, stderr := execute(t, "migrate", "status", address)
	require.Equal(t, exitOK, code, stderr)
	require.Equal(t, fmt.Sprintf("old to new: phase waiting until %[1]s\n  next: it starts at %[1]s\n", at.Format(time.RFC3339)), stdout)
	code, stdout, stderr = execute(t, "migrate", "status", address, "--json")
	require.Equal(t, exitOK, code, stderr)
	require.Contains(t, stdout, `"phase": "waiting"`)
}

func TestAMigrationThatIsLateIsAnError(t *testing.T) {
	var out bytes.Buffer
	late := []admin.Migration{{Migration: stats.Migration{From: "old", To: "new"}, Text: "old to new: phase copy", Next: "give it more time", Warning: true}}
	require.EqualError(t, showMigrations(&out, late, false), "the migration from old to new is not as it should be")
	require.Equal(t, "old to new: phase copy\n  next: give it more time\n", out.String())
	out.Reset()
	require.NoError(t, showMigrations(&out, nil, false))
	require.Equal(t, "no migrations are configured\n", out.String())
}
