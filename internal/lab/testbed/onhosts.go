package testbed

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"syscall"
	"time"

	"mcmw/internal/lab/agent"
	"mcmw/internal/lab/experiment"
	"mcmw/internal/lab/process"
	"mcmw/internal/lab/record"
)

const (
	// startAttempts is how often servers and middlewares are started when one ends at once: a port that was free can be taken
	// before it is listened on.
	startAttempts = 3
	// shortTimeout bounds what takes a moment: asking for a version, measuring the path.
	shortTimeout = 30 * time.Second
	// pathBulk is for how long each direction of the path carries bulk.
	pathBulk = 500 * time.Millisecond
)

// onHosts is a testbed of hosts.
type onHosts struct {
	hosts    Hosts
	programs Programs
	cpus     map[string][]int // by role
}

// OnHosts returns a testbed of hosts. cpus are the processors that the programs of a role may use; a role without an entry may
// use all.
func OnHosts(hosts Hosts, programs Programs, cpus map[string][]int) Testbed {
	return &onHosts{hosts: hosts, programs: programs, cpus: cpus}
}

// Close gives up the hosts.
func (t *onHosts) Close() error { return t.hosts.Close() }

// start starts a program of a role on its host.
func (t *onHosts) start(ctx context.Context, role Role, index int, p Program) (Process, error) {
	host, err := t.hosts.Host(role, index)
	if err != nil {
		return nil, err
	}
	if len(p.CPUs) == 0 {
		p.CPUs = t.cpus[string(role)]
	}
	return host.Start(ctx, p)
}

// output runs a program of a role to its end and returns what it wrote.
func (t *onHosts) output(ctx context.Context, role Role, name, path string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, shortTimeout)
	defer cancel()
	var out bytes.Buffer
	p, err := t.start(ctx, role, 0, Program{Name: name, Path: path, Args: args, Stdout: &out})
	if err != nil {
		return nil, err
	}
	if err := awaitEnd(ctx, p); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// awaitEnd waits until a process has ended. It is stopped if ctx ends before. The error says how it ended if that isn't with
// code 0.
func awaitEnd(ctx context.Context, p Process) error {
	select {
	case <-p.Done():
	case <-ctx.Done():
		p.Stop(syscall.SIGTERM)
		return context.Cause(ctx)
	}
	if p.ExitCode() != 0 {
		return p.Ended()
	}
	return nil
}

// Describe asks the programs and the host of the first server.
func (t *onHosts) Describe(ctx context.Context) (d Description, err error) {
	d.Versions = map[string]string{}
	for _, program := range []struct {
		role       Role
		name, path string
		args       []string
	}{
		{Server, "memcached", t.programs.Memcached, []string{"--version"}},
		{Server, "redis", t.programs.Redis, []string{"--version"}},
		{Middleware, "mcmw", t.programs.Mcmw, []string{"version"}},
		{Load, "mcmwlab", t.programs.Mcmwlab, []string{"version"}},
	} {
		if program.path == "" {
			continue
		}
		text, err := t.output(ctx, program.role, program.name, program.path, program.args...)
		if err != nil {
			return d, fmt.Errorf("asking %s for its version: %w", program.name, err)
		}
		line, _, _ := strings.Cut(string(bytes.TrimSpace(text)), "\n")
		d.Versions[program.name] = line
	}
	text, err := t.output(ctx, Server, "mcmwlab agent", t.programs.Mcmwlab, "agent", "describe")
	if err != nil {
		return d, fmt.Errorf("asking the host of the first server what it is: %w", err)
	}
	return d, json.Unmarshal(text, &d.Host)
}

// MeasurePath measures the path from the host of the first load process to that of the first middleware and, if that is another
// host, from there to the first server.
func (t *onHosts) MeasurePath(ctx context.Context) (values []record.Value, err error) {
	var between [3]Host
	for i, role := range []Role{Load, Middleware, Server} {
		if between[i], err = t.hosts.Host(role, 0); err != nil {
			return nil, err
		}
	}
	values, err = t.measurePath(ctx, record.SourcePath, Load, Middleware)
	if err != nil || between[1].Name() == between[0].Name() && between[2].Name() == between[1].Name() {
		return values, err
	}
	further, err := t.measurePath(ctx, record.SourcePath+":server", Middleware, Server)
	return append(values, further...), err
}

// measurePath measures the path between the first hosts of two roles. The bandwidth is that of the narrower direction; those of the
// directions have sources of their own.
func (t *onHosts) measurePath(ctx context.Context, source string, from, to Role) ([]record.Value, error) {
	target, err := t.hosts.Host(to, 0)
	if err != nil {
		return nil, err
	}
	port, err := target.FreePort(ctx)
	if err != nil {
		return nil, err
	}
	address := net.JoinHostPort(target.Address(), strconv.Itoa(port))
	server, err := t.start(ctx, to, 0, Program{Name: "path server", Path: t.programs.Mcmwlab, Args: []string{"agent", "path-server", "--listen", address}})
	if err != nil {
		return nil, err
	}
	defer server.Stop(syscall.SIGTERM)
	text, err := t.output(ctx, from, "mcmwlab agent", t.programs.Mcmwlab, "agent", "path", "--to", address, "--bulk", pathBulk.String())
	if err != nil {
		return nil, errors.Join(err, server.Ended())
	}
	var p agent.Path
	if err := json.Unmarshal(text, &p); err != nil {
		return nil, fmt.Errorf("the path from %s to %s: %w", from, to, err)
	}
	return []record.Value{
		{Source: source, Metric: "round_trip_time_mean", Value: p.RoundTripMean},
		{Source: source, Metric: "bandwidth", Value: min(p.Upload, p.Download)},
		{Source: source + ":requests", Metric: "bandwidth", Value: p.Upload},
		{Source: source + ":replies", Metric: "bandwidth", Value: p.Download},
	}, nil
}

// Deploy starts servers, then middlewares, and waits until they answer.
func (t *onHosts) Deploy(ctx context.Context, v experiment.Values) (Deployment, error) {
	for attempt := 1; ; attempt++ {
		d := &deployment{t: t}
		err := d.start(ctx, v)
		if err == nil {
			return d, nil
		}
		ended := d.ended()
		d.Stop()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if attempt == startAttempts || ended == nil {
			return nil, err
		}
	}
}

// await waits until all addresses answer, as seen from the load's host.
func (t *onHosts) await(ctx context.Context, addresses []string) error {
	if len(addresses) == 0 {
		return nil
	}
	_, err := t.output(ctx, Load, "mcmwlab agent", t.programs.Mcmwlab, append([]string{"agent", "await", "--for", process.ReadyTimeout.String()}, addresses...)...)
	return err
}
