package record

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const manifestName = "manifest.json"

// Manifest describes what a record contains and how to make it again. It is written when the record is created and
// never changes.
type Manifest struct {
	Name    string    `json:"name"`
	Title   string    `json:"title,omitempty"`
	Created time.Time `json:"created"`
	// Command is the command line that made the record.
	Command []string `json:"command,omitempty"`
	// Experiment is the unchanged text of the experiment file. Set has the settings by which the command line changed
	// it.
	Experiment string   `json:"experiment,omitempty"`
	Set        []string `json:"set,omitempty"`
	// Testbed is the kind of testbed, such as local.
	Testbed string `json:"testbed,omitempty"`
	Seed    uint64 `json:"seed,omitempty"`
	// Versions has the versions of the programs by their names.
	Versions map[string]string `json:"versions,omitempty"`
	// Checksums has the SHA-256 of the programs that are files of the machine that ran mcmwlab, by their names.
	Checksums map[string]string `json:"checksums,omitempty"`
	Host      Host              `json:"host"`
	// Inventory lists the hosts of the testbed ssh, with their addresses and roles.
	Inventory []string `json:"inventory,omitempty"`
	// Machines are the testbed's machines, if it knows them. Shortfalls lists where they have less than the experiment
	// requested.
	Machines   []Machine `json:"machines,omitempty"`
	Shortfalls []string  `json:"shortfalls,omitempty"`
	// Dilation is the number of real seconds in one second of the machines, if it isn't one. All times and rates are in
	// the machines' time (see PerTime).
	Dilation float64 `json:"dilation,omitempty"`
	// Path has the round-trip time and the bandwidth between clients and servers, measured before the runs.
	Path []Value `json:"path,omitempty"`
	// Imported is the format of the imported outputs, if mcmwlab did not measure the runs itself.
	Imported string `json:"imported,omitempty"`
}

// Machine has the requested properties of one machine of a testbed. 0 means no limit.
type Machine struct {
	Name     string  `json:"name"`
	Preset   string  `json:"preset,omitempty"` // the name of its size
	Address  string  `json:"address,omitempty"`
	CPUs     float64 `json:"cpus,omitempty"`     // seconds of processor time per second
	Memory   int64   `json:"memory,omitempty"`   // bytes
	Upload   float64 `json:"upload,omitempty"`   // TCP payload from the machine, bytes per second
	Download float64 `json:"download,omitempty"` // TCP payload to the machine, bytes per second
	Delay    float64 `json:"delay,omitempty"`    // of packets to another machine, seconds, one way
	// DelayedBy names what delays the packets; "" if nothing does.
	DelayedBy string `json:"delayed_by,omitempty"`
}

// Hosts returns how many hosts of a role, such as load, there are; 0 if the manifest does not say.
func (m Manifest) Hosts(role string) (n int) {
	for _, machine := range m.Machines {
		if strings.HasPrefix(machine.Name, role+"-") {
			n++
		}
	}
	for _, line := range m.Inventory { // NAME (DESTINATION) at ADDRESS: ROLE, ROLE
		roles := line[strings.LastIndex(line, ": ")+1:]
		if slices.Contains(strings.Split(strings.TrimSpace(roles), ", "), role) {
			n++
		}
	}
	return n
}

// Is reports whether a directory is a record.
func Is(dir string) bool {
	info, err := os.Stat(filepath.Join(dir, manifestName))
	return err == nil && info.Mode().IsRegular()
}

// Host is the machine on which an experiment ran.
type Host struct {
	Hostname  string `json:"hostname,omitempty"`
	Kernel    string `json:"kernel,omitempty"` // as printed by uname -sr
	CPU       string `json:"cpu,omitempty"`    // model name
	Cores     int    `json:"cores,omitempty"`  // that the processes can use
	Memory    uint64 `json:"memory,omitempty"` // bytes
	OS        string `json:"os,omitempty"`     // distribution
	GoVersion string `json:"go_version,omitempty"`
	// Settings has the system settings that affect measurements, such as the frequency governor, by name.
	Settings map[string]string `json:"settings,omitempty"`
}

// writeManifest writes the whole manifest to the directory, or nothing.
func writeManifest(dir string, m Manifest) error {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	temporary, err := os.CreateTemp(dir, manifestName+".*")
	if err != nil {
		return err
	}
	_, err = temporary.Write(append(text, '\n'))
	err = errors.Join(err, temporary.Chmod(0o644), temporary.Sync(), temporary.Close())
	if err == nil {
		err = os.Rename(temporary.Name(), filepath.Join(dir, manifestName))
	}
	if err != nil {
		os.Remove(temporary.Name())
	}
	return err
}

func readManifest(dir string) (Manifest, error) {
	var m Manifest
	path := filepath.Join(dir, manifestName)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return m, fmt.Errorf("%s: %w: it has no %s", dir, ErrNoRecord, manifestName)
	}
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return m, fmt.Errorf("%s: %w: %w", path, ErrNoRecord, err)
	}
	return m, nil
}

// Changed says in what two manifests of one experiment differ that decides whether their runs can be compared: programs
// and hosts. A record of an older version may lack checksums; then only the versions are compared.
func Changed(before, after Manifest) (changes []string) {
	compare := func(what string, before, after any) {
		if a, b := fmt.Sprint(before), fmt.Sprint(after); a != b {
			changes = append(changes, fmt.Sprintf("%s: %s, now %s", what, orNone(a), orNone(b)))
		}
	}
	for _, name := range union(before.Versions, after.Versions) {
		compare(name, before.Versions[name], after.Versions[name])
	}
	for _, name := range union(before.Checksums, after.Checksums) {
		if a, b := before.Checksums[name], after.Checksums[name]; len(before.Checksums) > 0 && a != b &&
			before.Versions[name] == after.Versions[name] {
			changes = append(changes, fmt.Sprintf("%s: another file, with the same version", name))
		}
	}
	a, b := before.Host, after.Host
	if before.Testbed != "kubernetes" { // there it is the name of a pod
		compare("host", a.Hostname, b.Hostname)
	}
	compare("processors", fmt.Sprint(a.Cores, " x ", a.CPU), fmt.Sprint(b.Cores, " x ", b.CPU))
	compare("memory", a.Memory, b.Memory)
	compare("kernel", a.Kernel, b.Kernel)
	for _, name := range union(a.Settings, b.Settings) {
		compare(name, a.Settings[name], b.Settings[name])
	}
	compare("inventory", before.Inventory, after.Inventory)
	compare("machines", withoutAddress(before.Machines), withoutAddress(after.Machines))
	compare("dilation", before.Dilation, after.Dilation)
	return changes
}

// withoutAddress returns machines without their addresses, which an emulation chooses anew.
func withoutAddress(machines []Machine) []Machine {
	machines = slices.Clone(machines)
	for i := range machines {
		machines[i].Address = ""
	}
	return machines
}

// union returns the keys of two maps, sorted.
func union(a, b map[string]string) []string {
	all := map[string]string{}
	maps.Copy(all, a)
	maps.Copy(all, b)
	return slices.Sorted(maps.Keys(all))
}

func orNone(text string) string {
	if text == "" || text == "[]" {
		return "none"
	}
	return text
}
