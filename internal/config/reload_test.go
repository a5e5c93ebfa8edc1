package config_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"mcmw/internal/config"
	"mcmw/internal/route"
)

func TestServersThatWereLookedUpAreCheckedLikeThoseGiven(t *testing.T) {
	found := func(names ...string) []route.Server {
		var list []route.Server
		for _, n := range names {
			name, addr, _ := strings.Cut(n, "=")
			list = append(list, route.Server{Name: name, Addr: addr, Weight: 1})
		}
		return list
	}
	for _, c := range []struct {
		args    string
		servers []route.Server
		message string
	}{
		{"--replicas 3", found("a=a:1", "b=b:1", "c=c:1"), ""},
		{
			"--replicas 3", found("a=a:1", "b=b:1"),
			`flag --replicas: "3" is more than there are servers (2); accepted: all, or 1 to 2`,
		},
		{
			"--ack quorum", found("a=a:1"),
			`flag --ack: "quorum" needs two replicas or more, and a key has one; accepted: all, or more servers and replicas`,
		},
		{
			"", found("a=a:1", "b=a:1"),
			`flag -m, --servers: "a" and "b" both have the address a:1; accepted: distinct addresses`,
		},
		{
			"", found("a=a:1", "a=b:1"),
			`flag -m, --servers: servers 1 and 2 are both named "a"; accepted: distinct names`,
		},
		{
			"-l 10.0.0.1:1", found("a=10.0.0.1:1"),
			`flag -m, --servers: "10.0.0.1:1" is an address mcmw itself listens on`,
		},
	} {
		config := sources{args: append(strings.Fields(c.args), "-m", "dns+x")}.load(t)
		if c.message == "" {
			require.NoError(t, config.CheckServers(c.servers))
			continue
		}
		require.EqualError(t, config.CheckServers(c.servers), c.message)
	}
}

func TestChangesAreReportedInTheTablesOrder(t *testing.T) {
	old := sources{args: strings.Fields("-m a b*2 --depth 1 -t 4")}.load(t)
	now := sources{yaml: "servers: [a, x=b*2, dns+c]\nmax-value: 2m\nworkers: 4\ndepth: 2\n"}.load(t)
	var lines []string
	for _, change := range now.Changes(old) {
		lines = append(lines, change.String())
	}
	require.Equal(t, []string{
		"servers: a,b*2 -> a,x=b:11211*2,dns+c:11211", "depth: 1 -> 2", "max-value: 1m -> 2m",
		"config: none -> mcmw.yaml",
	}, lines)
	require.Empty(t, now.Changes(now))
}

func TestAChangeThatNeedsARestartIsRefusedWithItsPlace(t *testing.T) {
	old := sources{args: strings.Fields("-m a"), yaml: "depth: 2\n"}.load(t)
	now := sources{
		args: strings.Fields("-m b"),
		yaml: "depth: 1\nlisten: [127.0.0.2, 127.0.0.3]\nadmin: off\nlog-format: text\n",
		env:  []string{"MCMW_LISTEN_PORT=5"},
	}.load(t)
	require.EqualError(t, now.CheckReload(old),
		`mcmw.yaml:2: listen: "127.0.0.2,127.0.0.3" cannot replace "127.0.0.1" while mcmw runs; accepted: a restart of mcmw
env MCMW_LISTEN_PORT: "5" cannot replace "11311" while mcmw runs; accepted: a restart of mcmw
mcmw.yaml:3: admin: "off" cannot replace "127.0.0.1:9150" while mcmw runs; accepted: a restart of mcmw
mcmw.yaml:4: log-format: "text" cannot replace "auto" while mcmw runs; accepted: a restart of mcmw`)
	require.NoError(t, old.CheckReload(old))
}

func TestEqualConfigurationsHaveEqualFingerprintsWhateverTheirSources(t *testing.T) {
	a := sources{args: strings.Fields("-m a b --depth 1 --log-level debug -l 127.0.0.2")}.load(t)
	b := sources{yaml: "servers: [a, b]\ndepth: 1\n", env: []string{"MCMW_ADMIN=off"}}.load(t)
	require.Equal(t, a.Fingerprint(), b.Fingerprint())
	require.Regexp(t, "^[0-9a-f]{12}$", a.Fingerprint())
	for _, args := range []string{"-m a b", "-m b a --depth 1", "-m a b*2 --depth 1", "-m a,b --depth 1 --sharded"} {
		require.NotEqual(t, a.Fingerprint(), sources{args: strings.Fields(args)}.load(t).Fingerprint(), args)
	}
	require.NotEqual(t, config.Fingerprint("a", "b"), config.Fingerprint("ab"))
}
