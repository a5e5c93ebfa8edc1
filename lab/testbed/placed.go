package testbed

import "context"

// Member is a server, a middleware or another program of a deployment.
type Member struct {
	// Process ends when the member does. If the member does not run on a Host, stopping Process need not end it.
	Process
	Name    string // its source in records, such as "middleware:0"
	Address string // where the load's hosts reach it, host:port
	// Metrics is the URL of its Prometheus metrics, from which the first load host reads its processor time; "" if it
	// runs on a Host, or has none.
	Metrics string
	Admin   string // of a middleware that is profiled: its admin address on its host; "": it isn't
	Log     *Log   // of a middleware: its statistics log; nil: none

	host Host // nil if it runs on none
}

// Placed returns the deployment of running servers and middlewares that something else than a Host has started, such as
// a cluster. Only load needs hosts, and only mcmwlab is used of the programs. Placed returns when all members answer.
func Placed(ctx context.Context, hosts Hosts, programs Programs, servers, middlewares []Member) (Deployment, error) {
	d := &deployment{t: &onHosts{hosts: hosts, programs: programs}, servers: servers, middlewares: middlewares}
	if err := d.await(ctx, d.all()); err != nil {
		if ended := d.ended(); ended != nil {
			err = ended
		}
		d.Stop()
		return nil, err
	}
	return d, nil
}
