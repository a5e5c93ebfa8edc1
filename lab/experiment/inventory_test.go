package experiment

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAnInventoryHasHostsAndDefaults(t *testing.T) {
	inventory, err := ParseInventory("lab/hosts.yaml", []byte(`
ssh_config: config
defaults:
  user: azureuser
  identity: ~/.ssh/lab
  programs: {memcached: /opt/memcached}
hosts:
  - {name: load1, ssh: 203.0.113.7, address: 10.0.0.4, roles: [load]}
  - {name: mw1, address: "fd00::5", port: 2222, user: root, roles: [middleware], identity: keys/mw}
  - {name: server1, address: server1.internal, roles: [server, load], programs: {mcmw: /opt/mcmw}, directory: /data}
`), "/home/me")
	require.NoError(t, err)
	given := map[string]string{"memcached": "/opt/memcached"}
	assert.Equal(t, &Inventory{Config: "lab/config", Hosts: []InventoryHost{
		{
			Name: "load1", SSH: "203.0.113.7", Address: "10.0.0.4", User: "azureuser", Identity: "/home/me/.ssh/lab",
			Roles: []string{"load"}, Programs: given,
		},
		{
			Name: "mw1", SSH: "mw1", Address: "fd00::5", Port: 2222, User: "root", Identity: "lab/keys/mw",
			Roles: []string{"middleware"}, Programs: given,
		},
		{
			Name: "server1", SSH: "server1", Address: "server1.internal", User: "azureuser",
			Identity: "/home/me/.ssh/lab", Roles: []string{"server", "load"},
			Directory: "/data", Programs: map[string]string{"memcached": "/opt/memcached", "mcmw": "/opt/mcmw"},
		},
	}}, inventory)
}

func TestProblemsOfAnInventoryAreReportedWithTheirLine(t *testing.T) {
	const good = "hosts: [{name: a, address: 10.0.0.1, roles: [server, middleware, load]}]"
	_, err := ParseInventory("h", []byte(good), "")
	require.NoError(t, err)
	for text, want := range map[string]string{
		"":           "h: the file is empty; expected an inventory",
		"- a":        "h:1: not a mapping",
		"hosts: []":  "h:1: hosts: expected a list, such as [a, b], of hosts",
		"hosts: [a]": "h:1: hosts: not a mapping",
		"host: []":   `h:1: unknown key "host"; did you mean hosts?`,
		"hosts: [{name: a, address: b, roles: [load]}]": "h:1: hosts: no host has the role server",
		"hosts: [{name: a, roles: [load]}]":             "h:1: hosts: a host without address",
		"hosts: [{address: a, roles: [load]}]":          "h:1: hosts: a host without name",
		"hosts: [{name: a, address: b}]":                "h:1: hosts: a host without roles",
		strings.Replace(good, "load", "client",
			1): `h:1: hosts.roles: "client"; expected one of server, middleware, load`,
		strings.Replace(good, "10.0.0.1", "-oProxyCommand=x",
			1): "hosts.address: \"-oProxyCommand=x\"; expected an IP address or a name",
		strings.Replace(good, "name: a", "name: a, ssh: -F/x",
			1): "hosts.ssh: \"-F/x\"; expected a host",
		strings.Replace(good, "name: a", "name: a, user: -x",
			1): "hosts.user: \"-x\"; expected a user's name",
		strings.Replace(good, "name: a", "name: ../a",
			1): "hosts.name: \"../a\"; expected letters",
		strings.Replace(good, "name: a", "name: a, port: 0",
			1): "hosts.port: \"0\"; expected a whole number from 1 to 65535",
		strings.Replace(good, "name: a", "name: a, programs: {redis: x}",
			1): "hosts.programs: unknown key \"redis\"; expected one of mcmw, mcmwlab, memcached",
		strings.Replace(good, "[{", "[{name: a, address: x, roles: [load]}, {",
			1): `h:1: hosts: there are two hosts "a"`,
		good + "\ndefaults: {name: a}": `h:2: defaults: unknown key "name"`,
	} {
		_, err := ParseInventory("h", []byte(text), "")
		require.ErrorContains(t, err, want, text)
	}
}

func TestKeysOfAnotherTestbedAreRefused(t *testing.T) {
	parse := func(testbed string) (*Experiment, error) {
		return Parse("f", []byte("name: a\ntestbed: "+testbed), false)
	}
	e, err := parse("{kind: ssh, inventory: hosts.yaml, cpus: {load: [0]}}")
	require.NoError(t, err)
	assert.Equal(t, "hosts.yaml", e.Inventory)
	e, err = parse("{kind: kubernetes, values: [a.yaml, b.yaml], context: test, namespace: lab-1}")
	require.NoError(t, err)
	assert.Equal(t, Kubernetes{
		Chart: DefaultChart, Values: []string{"a.yaml", "b.yaml"}, Context: "test",
		Namespace: "lab-1",
	}, e.Kubernetes)
	for testbed, want := range map[string]string{
		"{inventory: hosts.yaml}": "f:2: testbed.inventory: only testbeds of the kind ssh have it, " +
			"this one is of the kind local",
		"{kind: ssh, values: [a]}": "f:2: testbed.values: only testbeds of the kind kubernetes have it, " +
			"this one is of the kind ssh",
		"{kind: kubernetes, delay: 1ms}": "f:2: testbed.delay: only testbeds of the kind vm have it, this one " +
			"is of the kind kubernetes",
		"{kind: kubernetes, namespace: A}":      `f:2: testbed.namespace: "A"; expected lower-case letters`,
		"{kind: kubernetes, values: []}":        "f:2: testbed.values: expected a list",
		"{kind: ssh, inventory: \"\"}":          "f:2: testbed.inventory: \"\"; expected the path of an inventory",
		"{kind: kubernets}":                     "did you mean kubernetes?",
		"{kind: kubernetes, cpus: {load: [0]}}": "f:2: testbed.cpus: the cluster assigns processors to pods",
	} {
		_, err := parse(testbed)
		require.ErrorContains(t, err, want, testbed)
	}
}

// FuzzParseInventory reads any text.
func FuzzParseInventory(f *testing.F) {
	f.Add([]byte("hosts: [{name: a, address: 10.0.0.1, roles: [server, middleware, load]}]"))
	f.Add([]byte("defaults: {programs: {mcmw: /a}}\nhosts: [{name: a, address: b, roles: &r [load]}, {name: b, " +
		"roles: *r}]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		inventory, err := ParseInventory("h", text, "/home")
		if err != nil {
			problems, ok := errors.AsType[*Problems](err)
			require.True(t, ok)
			require.NotEmpty(t, problems.List)
			return
		}
		require.NotEmpty(t, inventory.Hosts)
		for _, h := range inventory.Hosts {
			require.NotEmpty(t, h.Name+h.Address)
			require.NotEqual(t, '-', h.SSH[0])
			require.NotEmpty(t, h.Roles)
		}
	})
}
