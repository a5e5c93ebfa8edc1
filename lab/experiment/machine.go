package experiment

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Machine describes the emulated machines of a role on the testbed vm.
type Machine struct {
	// Preset is the name of its size in Presets; empty if it has another size.
	Preset string
	// Count is the number of machines. The programs of the role are spread over them.
	Count int
	// CPUs is the processor time that all programs of a machine can use together, seconds per second; 0: all available.
	CPUs float64
	// Memory limits all programs of a machine together, bytes; 0: all available.
	Memory int64
	// Upload and Download limit the TCP throughput from the machine and to it, bytes of payload per second, without
	// headers, as iperf measures it; 0: unlimited.
	Upload, Download float64
}

// Bandwidths, bytes per second.
const (
	megabit = 1e6 / 8
	// fast is the specified bandwidth of the size A4. It is used for all directions for which the reports give no
	// number, because they were no bottleneck.
	fast = 800 * megabit
)

// Memory, bytes.
const (
	mebibyte = 1 << 20
	gibibyte = 1 << 30
)

// Presets are the sizes of virtual machines in the reports. Processors and memory are those of the 2018 report's
// section 1.2. The uploads are what it measured with iperf: 99.6 Mbit/s for A1 (section 2.1.1; 199 for two servers,
// 297.8 for three), 199 Mbit/s for the load machine, an A2 (section 2.2.1). The 2018 report on the same task by another
// author has 12 and 24 MB/s (its section 2.1).
var Presets = map[string]Machine{
	"azure-a1": {CPUs: 1, Memory: 1.75 * gibibyte, Upload: 99.6 * megabit, Download: fast},
	"azure-a2": {CPUs: 2, Memory: 3.5 * gibibyte, Upload: 199 * megabit, Download: fast},
	"azure-a4": {CPUs: 8, Memory: 14 * gibibyte, Upload: fast, Download: fast},
}

var presetNames = slices.Sorted(maps.Keys(Presets))

// defaultMachines are those of the 2018 report, section 1.2, by role.
var defaultMachines = map[string]Machine{
	"load":       preset("azure-a2", 3),
	"middleware": preset("azure-a4", 2),
	"server":     preset("azure-a1", 3),
}

// preset returns a number of machines of a size.
func preset(name string, count int) Machine {
	m := Presets[name]
	m.Preset, m.Count = name, count
	return m
}

// String describes the machines: "3 azure-a1", or "2 of 1 cpus, 1792MiB, upload 99.6Mbit".
func (m Machine) String() string {
	if m.Preset != "" {
		return fmt.Sprintf("%d %s", m.Count, m.Preset)
	}
	return fmt.Sprintf("%d of %s", m.Count, cmp.Or(m.Limits(), "no limits"))
}

// Limits returns the limits of a machine in the notation of experiment files; "" if there are none.
func (m Machine) Limits() string {
	var parts []string
	if m.CPUs > 0 {
		parts = append(parts, strconv.FormatFloat(m.CPUs, 'g', -1, 64)+" cpus")
	}
	if m.Memory > 0 {
		parts = append(parts, strconv.FormatInt(m.Memory/mebibyte, 10)+"MiB")
	}
	if m.Upload > 0 {
		parts = append(parts, "upload "+FormatBandwidth(m.Upload))
	}
	if m.Download > 0 {
		parts = append(parts, "download "+FormatBandwidth(m.Download))
	}
	return strings.Join(parts, ", ")
}

// FormatBandwidth returns bytes per second in the notation of experiment files, such as 99.6Mbit.
func FormatBandwidth(bytesPerSecond float64) string {
	return strconv.FormatFloat(math.Round(bytesPerSecond/megabit*1000)/1000, 'f', -1, 64) + "Mbit"
}

// bandwidths are the units of bandwidths, bytes per second.
var bandwidths = []unit{{"kbit", 1e3 / 8}, {"Mbit", megabit}, {"Gbit", 1e9 / 8}}

// memories are the units of memory, bytes.
var memories = []unit{{"MiB", mebibyte}, {"GiB", gibibyte}}

// unit is a unit that can follow a number.
type unit struct {
	name string
	size float64 // in the base unit
}
