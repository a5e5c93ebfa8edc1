package experiment

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/lab/table"
)

func TestAFileDescribesMachines(t *testing.T) {
	e := parse(t, `
name: machines
testbed:
  kind: vm
  delay: 0.5ms
  dilation: 2.5
  hosts:
    load: {cpus: 0.5, memory: 1792MiB, upload: 100Mbit, download: 0.8Gbit, count: 2}
    server: {count: 4, upload: 50Mbit, preset: azure-a1}
`)
	assert.Equal(t, Machine{Count: 2, CPUs: 0.5, Memory: 1792 << 20, Upload: 12.5e6, Download: 100e6},
		e.Machines["load"])
	assert.Equal(t, Machine{Count: 4, CPUs: 1, Memory: 1792 << 20, Upload: 6.25e6, Download: 100e6},
		e.Machines["server"],
		"given properties replace those of a preset, in any order")
	assert.Equal(t, defaultMachines["middleware"], e.Machines["middleware"])
	assert.Equal(t, 500*time.Microsecond, e.Delay)

	var out bytes.Buffer
	require.NoError(t, e.Plan().Write(&out, table.Text))
	assert.Contains(t, out.String(),
		"vm; server: 4 of 1 cpus, 1792MiB, upload 50Mbit, download 800Mbit; middleware: 2 azure-a4; "+
			"load: 2 of 0.5 cpus, 1792MiB, upload 100Mbit, download 800Mbit; delay 500µs; time 2.5 times slower\n")
	assert.Contains(t, out.String(), "runs         3, about 1m39s\n",
		"three times 1.5 s and 2.5 times 12 s and 10,000 round trips of 1 ms, 16 at once")
	assert.InDelta(t, 2.5, e.Dilation, 0)
	assert.Equal(t, "1 of no limits", Machine{Count: 1}.String())
}

func TestRolesWithoutMachinesGetThoseOfTheReport(t *testing.T) {
	e := parse(t, "name: reports\ntestbed: vm\n")
	assert.Equal(t, defaultMachines, e.Machines)
	assert.Equal(t, "azure-a1", e.Machines["server"].Preset)
	assert.InDelta(t, 99.6e6/8, e.Machines["server"].Upload, 1e-6)
}

func TestAnExperimentCanMoveToAnotherTestbed(t *testing.T) {
	for _, test := range []struct {
		testbed, set string
		want         Experiment
	}{
		{"{cpus: {load: [0]}}", "testbed=vm", Experiment{Testbed: "vm", Machines: defaultMachines}},
		{"{cpus: {load: [0]}}", "testbed=local", Experiment{Testbed: "local", CPUs: map[string][]int{"load": {0}}}},
		{"{kind: vm, delay: 1ms}", "testbed=local", Experiment{Testbed: "local"}},
		{
			"{kind: vm, delay: 1ms}", "testbed=vm",
			Experiment{Testbed: "vm", Machines: defaultMachines, Delay: time.Millisecond},
		},
		{"vm", "testbed.delay=2ms", Experiment{Testbed: "vm", Machines: defaultMachines, Delay: 2 * time.Millisecond}},
		{
			"{kind: vm, delay: 1ms}", "testbed={kind: ssh, inventory: hosts.yaml}",
			Experiment{Testbed: "ssh", Inventory: "hosts.yaml"},
		},
	} {
		e, err := Parse("e.yaml", []byte("name: moved\ntestbed: "+test.testbed+"\n"), false, test.set)
		require.NoError(t, err, test.set)
		assert.Equal(t, test.want, Experiment{
			Testbed: e.Testbed, Machines: e.Machines, CPUs: e.CPUs, Delay: e.Delay, Inventory: e.Inventory,
		}, "%s %s", test.testbed, test.set)
	}
	for set, want := range map[string]string{
		"testbed=moon": `e.yaml: testbed: "moon"; expected one of local, vm, ssh, kubernetes`,
		"testbed.delay=0.4ms": "e.yaml: testbed.delay: only testbeds of the kind vm have it, " +
			"this one is of the kind local",
	} {
		_, err := Parse("e.yaml", []byte("name: own\n"), false, set)
		assert.EqualError(t, err, want)
	}
}
