package experiment

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
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
var bandwidths = map[string]float64{"kbit": 1e3 / 8, "Mbit": megabit, "Gbit": 1e9 / 8}

// memories are the units of memory, bytes.
var memories = map[string]float64{"MiB": mebibyte, "GiB": gibibyte}

// The kinds of testbeds.
const (
	LocalTestbed      = "local"      // this machine
	VMTestbed         = "vm"         // emulated machines on this one
	SSHTestbed        = "ssh"        // hosts that are reached over ssh
	KubernetesTestbed = "kubernetes" // a cluster, through the chart
)

// testbeds has all kinds of testbeds.
var testbeds = []string{LocalTestbed, VMTestbed, SSHTestbed, KubernetesTestbed}

const (
	// maxMachines is the largest number of machines of a role: each has an address and interfaces.
	maxMachines = 200
	// minBandwidth and maxBandwidth are the limits within which the kernel's token buckets are exact, bytes per second.
	minBandwidth = 100e3 / 8
	maxBandwidth = 25e9 / 8
	// minMemory is the memory that a program needs to start, bytes.
	minMemory = 16 * mebibyte
	maxMemory = 1 << 50
	minCPUs   = 0.01
	maxCPUs   = 1024
	// maxDelay is longer than the delay of any path on earth.
	maxDelay = 10 * time.Second
	// maxDilation makes a minute take nearly two hours.
	maxDilation = 100
)

// completeMachines adds the default machines for the roles that a file for the testbed vm leaves out.
func (e *Experiment) completeMachines() {
	if e.Testbed != VMTestbed {
		return
	}
	given := e.Machines
	e.Machines = maps.Clone(defaultMachines)
	maps.Copy(e.Machines, given)
}

// roles reads a mapping of roles.
func (d *decoder) roles(n *yaml.Node, key string, read func(role, key string, n *yaml.Node)) {
	keys := fields{}
	for _, role := range roles {
		keys[role] = func(key string, n *yaml.Node) { read(role, key, n) }
	}
	d.mapping(n, key, keys)
}

// machine reads the properties of a role's machines. Given properties replace those of the preset.
func (d *decoder) machine(n *yaml.Node, key string) Machine {
	m := Machine{Count: 1}
	if n.Kind == yaml.MappingNode {
		if name := child(n, "preset"); name != nil {
			m = preset(d.word(name, key+".preset", presetNames), 1)
		}
	}
	// own wraps a property that makes the machine differ from its preset.
	own := func(read func(string, *yaml.Node)) func(string, *yaml.Node) {
		return func(key string, n *yaml.Node) {
			m.Preset = ""
			read(key, n)
		}
	}
	d.mapping(n, key, fields{
		"preset": func(string, *yaml.Node) {}, // read before the others
		"count":  func(key string, n *yaml.Node) { m.Count = d.whole(n, key, 1, maxMachines) },
		"cpus":   own(func(key string, n *yaml.Node) { m.CPUs = d.number(n, key, minCPUs, maxCPUs) }),
		"memory": own(func(key string, n *yaml.Node) {
			m.Memory = int64(d.quantity(n, key, "memory such as 1792MiB or 3.5GiB, at least 16MiB", memories, minMemory,
				maxMemory))
		}),
		"upload":   own(func(key string, n *yaml.Node) { m.Upload = d.bandwidth(n, key) }),
		"download": own(func(key string, n *yaml.Node) { m.Download = d.bandwidth(n, key) }),
	})
	return m
}

func (d *decoder) bandwidth(n *yaml.Node, key string) float64 {
	return d.quantity(n, key, "a bandwidth such as 100Mbit or 1Gbit, from 100kbit to 25Gbit", bandwidths, minBandwidth,
		maxBandwidth)
}

// quantity returns a number with one of the units, in the base unit, in which the units' sizes are. The value after a
// problem is not used.
func (d *decoder) quantity(n *yaml.Node, key, accepts string, units map[string]float64, low, high float64) (v float64) {
	d.scalar(n, key, accepts, func(text string) bool {
		for unit, size := range units {
			if digits, ok := strings.CutSuffix(text, unit); ok {
				number, err := strconv.ParseFloat(digits, 64)
				v = number * size
				return err == nil && v >= low && v <= high
			}
		}
		return false
	})
	return v
}

// dilation reads the factor by which the machines' time is slower than real time.
func (d *decoder) dilation(n *yaml.Node, key string) (v float64) {
	d.scalar(n, key, fmt.Sprintf("a number from 1 to %d", maxDilation), func(text string) bool {
		var err error
		v, err = strconv.ParseFloat(text, 64)
		return err == nil && v >= 1 && v <= maxDilation
	})
	return v
}

// checkDilation refuses settings that can't be dilated.
func (d *decoder) checkDilation(e *Experiment, at *yaml.Node) {
	if e.Dilation > 1 && slices.ContainsFunc(e.Points, func(p Point) bool { return p.Values.Is(Rate) }) {
		d.problem(at, "testbed.dilation",
			"given together with rate: the load of an open loop can't be dilated; expected one of them")
	}
}

// Kubernetes configures the testbed that installs the Helm chart on a cluster.
type Kubernetes struct {
	Chart     string   // path of the chart
	Values    []string // paths of files with values of the chart
	Context   string   // of kubectl; "": the current one
	Namespace string   // is created and removed; "": one with a generated name
}

// DefaultChart is the path of the chart in the repository.
const DefaultChart = "deploy/helm/mcmw"

var namespaceForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// kindOfKey maps keys of the testbed to the only kind of testbed that accepts them.
var kindOfKey = map[string]string{
	"hosts": VMTestbed, "delay": VMTestbed, "dilation": VMTestbed,
	"inventory": SSHTestbed,
	"chart":     KubernetesTestbed, "values": KubernetesTestbed, "context": KubernetesTestbed,
	"namespace": KubernetesTestbed,
}

// checkKind refuses keys of a testbed that belong to another kind.
func (d *decoder) checkKind(n *yaml.Node, key string, seen map[string]bool, kind string) {
	for _, name := range slices.Sorted(maps.Keys(kindOfKey)) {
		if of := kindOfKey[name]; seen[name] && kind != "" && kind != of {
			d.problem(child(n, name), key+"."+name, "only testbeds of the kind %s have it, this one is of the kind %s",
				of, kind)
		}
	}
	if seen["cpus"] && kind == KubernetesTestbed {
		d.problem(child(n, "cpus"), key+".cpus",
			"the cluster assigns processors to pods; expected requests and limits in the chart's values")
	}
}
