package record

import (
	"fmt"
	"maps"
	"slices"
)

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
