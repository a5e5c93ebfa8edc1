package testbed

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
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
)

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
	host, err := t.hosts.Host(role, 0)
	if err != nil {
		return nil, err
	}
	return Output(ctx, host, Program{Name: name, Path: path, Args: args, CPUs: t.cpus[string(role)]})
}

// Output runs a program that takes a moment on a host, to its end, and returns what it wrote to standard output.
func Output(ctx context.Context, host Host, p Program) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, shortTimeout)
	defer cancel()
	var out bytes.Buffer
	p.Stdout = &out
	started, err := host.Start(ctx, p)
	if err != nil {
		return nil, err
	}
	if err := awaitEnd(ctx, started); err != nil {
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
	if hosts, ok := t.hosts.(Describer); ok {
		d.Machines, d.Shortfalls = hosts.Machines()
	}
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
func (t *onHosts) MeasurePath(ctx context.Context, bulk time.Duration) (values []record.Value, err error) {
	var between [3]Host
	for i, role := range []Role{Load, Middleware, Server} {
		if between[i], err = t.hosts.Host(role, 0); err != nil {
			return nil, err
		}
	}
	values, err = t.measurePath(ctx, record.SourcePath, Load, Middleware, bulk)
	if err != nil || between[1].Name() == between[0].Name() && between[2].Name() == between[1].Name() {
		return values, err
	}
	further, err := t.measurePath(ctx, record.SourcePath+":server", Middleware, Server, bulk)
	return append(values, further...), err
}

// measurePath measures the path between the first hosts of two roles. The bandwidth is that of the narrower direction; those of the
// directions have sources of their own.
func (t *onHosts) measurePath(ctx context.Context, source string, from, to Role, bulk time.Duration) ([]record.Value, error) {
	var ends [2]pathEnd
	for i, role := range []Role{from, to} {
		host, err := t.hosts.Host(role, 0)
		if err != nil {
			return nil, err
		}
		ends[i] = pathEnd{host, t.cpus[string(role)]}
	}
	p, err := measurePath(ctx, t.programs.Mcmwlab, ends[0], ends[1], bulk)
	if err != nil {
		return nil, err
	}
	return PathValues(source, p), nil
}

// PathValues are what a record has of a path, at a source.
func PathValues(source string, p agent.Path) []record.Value {
	return []record.Value{
		{Source: source, Metric: "round_trip_time_mean", Value: p.RoundTripMean},
		{Source: source, Metric: "bandwidth", Value: min(p.Upload, p.Download)},
		{Source: source + ":requests", Metric: "bandwidth", Value: p.Upload},
		{Source: source + ":replies", Metric: "bandwidth", Value: p.Download},
	}
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
