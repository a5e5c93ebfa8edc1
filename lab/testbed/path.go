package testbed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
	"time"

	"mcmw/lab/agent"
)

// pathEnd is one end of a path: a host, and the processors that programs may use there; none means all.
type pathEnd struct {
	Host
	cpus []int
}

// MeasurePath measures the path from one host to another. mcmwlab is the path of that program on both, bulk how long
// each direction's bandwidth is measured.
func MeasurePath(ctx context.Context, mcmwlab string, from, to Host, bulk time.Duration) (agent.Path, error) {
	return measurePath(ctx, mcmwlab, pathEnd{Host: from}, pathEnd{Host: to}, bulk)
}

func measurePath(ctx context.Context, mcmwlab string, from, to pathEnd, bulk time.Duration) (p agent.Path, err error) {
	port, err := to.FreePort(ctx)
	if err != nil {
		return p, err
	}
	address := net.JoinHostPort(to.Address(), strconv.Itoa(port))
	server, err := to.Start(ctx, Program{
		Name: "path server", Path: mcmwlab,
		Args: agent.Task{PathServer: address}.Args(), CPUs: to.cpus,
	})
	if err != nil {
		return p, err
	}
	defer server.Stop(syscall.SIGTERM)
	text, err := Output(ctx, from, Program{
		Name: "mcmwlab agent", Path: mcmwlab, CPUs: from.cpus,
		Args: agent.Task{Path: &agent.Measured{To: address, Bulk: bulk}}.Args(),
	})
	if err != nil {
		return p, errors.Join(err, server.Ended())
	}
	if err := json.Unmarshal(text, &p); err != nil {
		return p, fmt.Errorf("reading the measurement of the path from %s to %s: %w", from.Name(), to.Name(), err)
	}
	return p, nil
}
