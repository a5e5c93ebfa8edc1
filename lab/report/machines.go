package report

import (
	"strings"

	"mcmw/lab/record"
)

// direction is a direction of the network of the machines of a role.
type direction struct {
	role string // prefix of the machines' names, such as server-0
	name string // upload or download
}

// directions are the directions whose bandwidth can be the limit.
var directions = []direction{
	{"server", "upload"},
	{"server", "download"},
	{"middleware", "upload"},
	{"middleware", "download"},
	{"load", "upload"},
	{"load", "download"},
}

// component returns the name of the component.
func (d direction) component() string { return d.name + " of the " + d.role + " machines" }

// full returns the utilization of a direction at the machine with the highest one. It is unknown if the machines have
// no limits. Samples include a header for each packet that the kernel handles, limits do not: they differ by one or two
// percent.
func (d *Data) full(run record.Run, of direction) (most float64, known bool) {
	for _, m := range d.Manifest.Machines {
		limit, metric := m.Upload, "net_tx_bytes"
		if of.name == "download" {
			limit, metric = m.Download, "net_rx_bytes"
		}
		if !strings.HasPrefix(m.Name, of.role+"-") || limit <= 0 {
			continue
		}
		if bytes, ok := d.sampled(run, record.SourceHost+":"+m.Name, metric); ok {
			most, known = max(most, bytes/limit), true
		}
	}
	return most, known
}
