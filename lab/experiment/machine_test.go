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
	assert.Contains(t, out.String(), "runs         3, about 1m41s\n", "three times 2.5 times 13.5 s")
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
	e := parse(t, "name: moved\ntestbed: {cpus: {load: [0]}}\n")
	require.NoError(t, e.On("vm"))
	assert.Equal(t, defaultMachines, e.Machines)
	assert.Nil(t, e.CPUs)
	require.NoError(t, e.On("local"))
	assert.Nil(t, e.Machines)
	assert.InDelta(t, 1, e.Dilation, 0)

	own := parse(t, "name: own\ntestbed: {kind: vm, delay: 1ms}\n")
	require.NoError(t, own.On("vm"))
	assert.Equal(t, time.Millisecond, own.Delay, "it stays where it is")
	assert.EqualError(t, own.On("moon"), `testbed "moon"; expected one of local, vm, ssh, kubernetes`)
}
