package experiment

import (
	"maps"
	"regexp"
	"slices"

	"go.yaml.in/yaml/v3"
)

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

// remoteFields are the keys of the testbeds on other machines.
func (d *decoder) remoteFields(e *Experiment) fields {
	k := &e.Kubernetes
	return fields{
		"inventory": func(key string, n *yaml.Node) {
			e.Inventory = d.text(n, key, "the path of an inventory of hosts")
		},
		"chart": func(key string, n *yaml.Node) { k.Chart = d.text(n, key, "the path of the chart") },
		"values": func(key string, n *yaml.Node) {
			for _, element := range d.list(n, key, "paths of files with values of the chart") {
				k.Values = append(k.Values, d.text(element, key, "the path of a file"))
			}
		},
		"context": func(key string, n *yaml.Node) { k.Context = d.text(n, key, "a context of kubectl") },
		"namespace": func(key string, n *yaml.Node) {
			k.Namespace = d.scalar(n, key, "lower-case letters, digits and -, at most 63", namespaceForm.MatchString)
		},
	}
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
