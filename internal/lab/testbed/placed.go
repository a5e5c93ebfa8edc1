package testbed

import (
	"context"
)

// Member is a server or middleware that something else than a Host runs, such as a cluster.
type Member struct {
	// Process ends when the member does. Stopping it need not end the member.
	Process
	Name    string // its source in records, such as "middleware:0"
	Address string // where the load's hosts reach it, host:port
	Metrics string // URL of its Prometheus metrics, which the first load host asks for its processor time; "" if it has none
	Log     *Log   // of a middleware: what its statistics log is written to
}

// Placed returns the deployment of servers and middlewares that run already, on which hosts put load. Only load has to have hosts, and
// of the programs only mcmwlab is used. It returns when all members answer.
func Placed(ctx context.Context, hosts Hosts, programs Programs, servers, middlewares []Member) (Deployment, error) {
	d := &deployment{t: &onHosts{hosts: hosts, programs: programs}}
	for _, of := range []struct {
		from []Member
		to   *[]member
	}{{servers, &d.servers}, {middlewares, &d.middlewares}} {
		for _, m := range of.from {
			*of.to = append(*of.to, member{Process: m.Process, name: m.Name, address: m.Address, metrics: m.Metrics, log: m.Log})
		}
	}
	if err := d.await(ctx, d.all()); err != nil {
		if ended := d.ended(); ended != nil {
			err = ended
		}
		d.Stop()
		return nil, err
	}
	return d, nil
}
