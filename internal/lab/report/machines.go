package report

import (
	"strings"

	"mcmw/internal/lab/record"
)

// direction is a direction of the network of the machines of a role.
type direction struct {
	name   string // of the component
	role   string // prefix of the machines' names, such as server-0
	metric string // of a machine's samples, bytes per second
	limit  func(record.Machine) float64
}

// directions are the directions whose bandwidth can be the limit.
var directions = func() (all []direction) {
	for _, role := range []string{"server", "middleware", "load"} {
		all = append(all,
			direction{"upload of the " + role + " machines", role, "net_tx_bytes", func(m record.Machine) float64 { return m.Upload }},
			direction{"download of the " + role + " machines", role, "net_rx_bytes", func(m record.Machine) float64 { return m.Download }})
	}
	return all
}()

// full returns the utilization of a direction at the machine with the highest one. It is unknown if the machines have no limits. Samples
// include a header for each packet that the kernel handles, limits do not: they differ by one or two percent.
func (d *Data) full(run record.Run, of direction) (most float64, known bool) {
	for _, m := range d.Manifest.Machines {
		if !strings.HasPrefix(m.Name, of.role+"-") || of.limit(m) <= 0 {
			continue
		}
		if bytes, ok := d.sampled(run, record.SourceHost+":"+m.Name, of.metric); ok {
			most, known = max(most, bytes/of.limit(m)), true
		}
	}
	return most, known
}
