package report

import (
	"strings"

	"mcmw/internal/lab/record"
)

// direction is one way of the network of a role's machines.
type direction struct {
	name   string // as a component
	role   string // which the names of its machines begin with, such as server-0
	metric string // of a machine's samples, bytes per second
	limit  func(record.Machine) float64
}

// directions are those that can be full.
var directions = func() (all []direction) {
	for _, role := range []string{"server", "middleware", "load"} {
		all = append(all,
			direction{"upload of the " + role + " machines", role, "net_tx_bytes", func(m record.Machine) float64 { return m.Upload }},
			direction{"download of the " + role + " machines", role, "net_rx_bytes", func(m record.Machine) float64 { return m.Download }})
	}
	return all
}()

// full returns the part in use of the direction of the machine that used most of it; it isn't known where machines have no limits.
// What is sampled has a header for each packet that the kernel handles, what limits is payload: they differ by a per cent or two.
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
