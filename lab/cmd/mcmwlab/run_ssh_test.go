package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/lab/record"
)

// inventory writes an inventory of three hosts on loopback, which are all the same ssh server, and returns its path.
func inventory(t *testing.T, server *mctest.SSHD) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "hosts.yaml")
	require.NoError(t, os.WriteFile(path, fmt.Appendf(nil, `ssh_config: %s
defaults: {port: %d}
hosts:
  - {name: load1, ssh: lab, address: 127.0.0.1, roles: [load]}
  - {name: middleware1, ssh: lab, address: 127.0.0.2, roles: [middleware]}
  - {name: server1, ssh: lab, address: 127.0.0.3, roles: [server]}
`, server.Config, server.Port), 0o644))
	return path
}

// left returns the names of the temporary files on the hosts.
func left(t *testing.T, server *mctest.SSHD) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(server.Temp)
	require.NoError(t, err)
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// running returns the processes with a text in their command lines.
func running(text string) string {
	found, _ := exec.Command("pgrep", "-f", "-a", text).Output() // it fails when there are none
	return string(found)
}

func TestAnExperimentRunsOverSSHAndLeavesNothingOnTheHosts(t *testing.T) {
	server := mctest.StartSSHD(t, asProgram+"=1")
	dir := filepath.Join(t.TempDir(), "record")
	file := experimentFile(t, "testbed: {kind: ssh, inventory: "+inventory(t, server)+"}",
		"quick: {factors: {workers: [2], clients: [4]}}")
	stdout, stderr, err := lab(context.Background(), "run", file, "--quick", "--out", dir, "--program",
		"mcmw="+mcmwPath(t))
	require.NoError(t, err, stderr)
	assert.Contains(t, stdout, dir+": 1 run complete\n")
	assert.Empty(t, left(t, server))
	assert.Empty(t, running(server.Temp))

	r, err := record.Open(dir)
	require.NoError(t, err)
	defer r.Close()
	m := r.Manifest()
	assert.Equal(t, "ssh", m.Testbed)
	assert.Contains(t, m.Versions["memcached"], "memcached 1.")
	_, ok := record.Find(m.Path, record.SourcePath+":server", "bandwidth")
	assert.True(t, ok, "the path has a part to the servers")
	runs := recorded(t, dir)
	require.Len(t, runs, 1)
	for _, run := range runs {
		require.Equal(t, record.Complete, run.State, run.Error)
		for _, of := range [][2]string{
			{"client", "throughput"},
			{"middleware", "throughput"},
			{"server:s1", "seconds_cpu"},
		} {
			v, ok := run.Value(of[0], of[1])
			assert.True(t, ok && v > 0, "%v", of)
		}
	}
}

// onHosts is the setting that runs an experiment on the hosts of an inventory.
func onHosts(inventory string) string { return "testbed={kind: ssh, inventory: " + inventory + "}" }

func TestProblemsWithHostsAreReportedWithAdvice(t *testing.T) {
	server := mctest.StartSSHD(t, asProgram+"=1")
	// The inventory has the paths of the programs, so that nothing is copied except where the test is about copies.
	self, err := os.Executable()
	require.NoError(t, err)
	there := fmt.Sprintf("defaults: {programs: {mcmw: %s, mcmwlab: %s}, port", mcmwPath(t), self)
	change := func(old, replacement string) string {
		path := inventory(t, server)
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Contains(t, string(text), old)
		changed := strings.Replace(string(text), old, replacement, 1)
		require.NoError(t, os.WriteFile(path, []byte(strings.Replace(changed, "defaults: {port", there, 1)), 0o644))
		return path
	}
	config := func(old, replacement string) string {
		text, err := os.ReadFile(server.Config)
		require.NoError(t, err)
		require.Contains(t, string(text), old)
		path := filepath.Join(t.TempDir(), "config")
		require.NoError(t, os.WriteFile(path, []byte(strings.Replace(string(text), old, replacement, 1)), 0o600))
		return change(server.Config, path)
	}
	otherKey := filepath.Join(t.TempDir(), "other")
	out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", otherKey).CombinedOutput()
	require.NoError(t, err, "%s", out)
	for name, test := range map[string]struct {
		inventory string
		says      []string
		code      int
	}{
		"unreachable": {
			change(fmt.Sprint("port: ", server.Port), "port: 1"),
			[]string{"host load1: it cannot be reached: ", "Connection refused", "try: ssh -F "},
			exitFailed,
		},
		"refused": {
			config(server.Identity, otherKey),
			[]string{"host load1: it refuses the user or the key: ", "Permission denied (publickey)"},
			exitFailed,
		},
		"unknown": {
			config(server.KnownHosts, "/dev/null"),
			[]string{"host server1: its host key is not the one in known_hosts", "connect once by hand: ssh lab"},
			exitFailed,
		},
		"no memcached": {
			change("defaults: {",
				fmt.Sprintf("defaults: {programs: {mcmw: %s, mcmwlab: %s, memcached: /nowhere/memcached}, ",
					mcmwPath(t), self)), []string{"host server1: starting memcached: ", "no such file"}, exitFailed,
		},
		"no mcmwlab": {
			change("defaults: {", fmt.Sprintf("defaults: {programs: {mcmw: %s, mcmwlab: /nowhere/mcmwlab}, ",
				mcmwPath(t))), []string{"a program is missing there", "/nowhere/mcmwlab: not found"}, exitFailed,
		},
		"no directory": {
			change("defaults: {", "defaults: {directory: /nowhere, "),
			[]string{"host load1: a program is missing there", "/nowhere/mcmwlab"},
			exitFailed,
		},
		"no address": {
			change("address: 127.0.0.2, ", ""),
			[]string{"hosts.yaml:5: hosts: a host without address; expected a line such as"},
			exitUsage,
		},
		"no inventory": {
			"/nowhere/hosts.yaml",
			[]string{"the inventory of the testbed ssh: open /nowhere/hosts.yaml"},
			exitUsage,
		},
		"foreign address": {
			change("127.0.0.3", "192.0.2.1"),
			[]string{"host server1: looking for a free port: listen tcp 192.0.2.1:", "cannot assign requested address"},
			exitFailed,
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := lab(context.Background(), "run", experimentFile(t), "--set", onHosts(test.inventory), "--out",
				filepath.Join(t.TempDir(), "record"), "--program", "mcmw="+mcmwPath(t))
			for _, text := range test.says {
				require.ErrorContains(t, err, text)
			}
			assert.Equal(t, test.code, exitCode(err, new(mctest.Output)))
			assert.Empty(t, left(t, server))
		})
	}
}
