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

	"mcmw/lab/agent"
	"mcmw/lab/experiment"
	"mcmw/lab/record"
)

const (
	// startAttempts is how often servers and middlewares are started if one ends at once: another program can take a
	// free port before it is used.
	startAttempts = 3
	// shortTimeout bounds what takes only a moment: reading a version, measuring the path.
	shortTimeout = 30 * time.Second
)

type onHosts struct {
	hosts    Hosts
	programs Programs
	cpus     map[string][]int // by role
}

// OnHosts returns a testbed of hosts. cpus are the processors that programs of a role may use; a role without an entry
// may use all.
func OnHosts(hosts Hosts, programs Programs, cpus map[string][]int) Testbed {
	return &onHosts{hosts: hosts, programs: programs, cpus: cpus}
}

func (t *onHosts) Close() error { return t.hosts.Close() }

// start starts a program on a host of its role.
func (t *onHosts) start(ctx context.Context, role Role, index int, p Program) (m Member, err error) {
	m = Member{Name: p.Name, host: t.hosts.host(role, index)}
	if len(p.CPUs) == 0 {
		p.CPUs = t.cpus[string(role)]
	}
	m.Process, err = m.host.Start(ctx, p)
	return m, err
}

// output runs a program on the first host of a role to its end and returns its output.
func (t *onHosts) output(ctx context.Context, role Role, name, path string, args ...string) ([]byte, error) {
	return Output(ctx, t.hosts.host(role, 0), Program{Name: name, Path: path, Args: args, CPUs: t.cpus[string(role)]})
}

// task returns the program that carries out a task on a host.
func (t *onHosts) task(name string, task agent.Task) Program {
	return Program{Name: name, Path: t.programs.Mcmwlab, Args: task.Args()}
}

// report starts a task on a host whose output is wanted.
func (t *onHosts) report(ctx context.Context, host Host, name string, task agent.Task) (m Member, err error) {
	m = Member{Name: name, host: host, out: new(bytes.Buffer)}
	p := t.task(name, task)
	p.Stdout = m.out
	m.Process, err = host.Start(ctx, p)
	return m, err
}

// Output runs a short program on a host to its end and returns its standard output.
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

// awaitEnd waits until a process has ended; if ctx ends first, it stops the process. An exit code other than 0 is an
// error.
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

// Describe runs the programs for their versions, and describes the host of the first server.
func (t *onHosts) Describe(ctx context.Context) (d Description, err error) {
	d.Versions, d.Inventory = map[string]string{}, t.hosts.Inventory
	d.Machines, d.Shortfalls, d.Dilation = t.hosts.Machines, t.hosts.Shortfalls, t.hosts.Dilation
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
			return d, fmt.Errorf("reading the version of %s: %w", program.name, err)
		}
		line, _, _ := strings.Cut(string(bytes.TrimSpace(text)), "\n")
		d.Versions[program.name] = line
	}
	text, err := t.output(ctx, Server, "mcmwlab agent", t.programs.Mcmwlab,
		agent.Task{Describe: true}.Args()...)
	if err != nil {
		return d, fmt.Errorf("describing the host of the first server: %w", err)
	}
	return d, json.Unmarshal(text, &d.Host)
}

// MeasurePath measures the path from the host of the first load process to that of the first middleware and, unless all
// are the same host, from there to the first server.
func (t *onHosts) MeasurePath(ctx context.Context, bulk time.Duration) ([]record.Value, error) {
	var ends [3]pathEnd
	for i, role := range []Role{Load, Middleware, Server} {
		ends[i] = pathEnd{t.hosts.host(role, 0), t.cpus[string(role)]}
	}
	p, err := measurePath(ctx, t.programs.Mcmwlab, ends[0], ends[1], bulk)
	if err != nil {
		return nil, err
	}
	values := PathValues(record.SourcePath, p.Dilated(t.dilation()))
	if ends[1].Name() == ends[0].Name() && ends[2].Name() == ends[1].Name() {
		return values, nil
	}
	if p, err = measurePath(ctx, t.programs.Mcmwlab, ends[1], ends[2], bulk); err != nil {
		return values, err
	}
	return append(values, PathValues(record.SourcePath+":server", p.Dilated(t.dilation()))...), nil
}

// PathValues returns what a record has of a path, under a source. The bandwidth is that of the slower direction; each
// direction also has a source of its own.
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
	v = t.slowed(v)
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

// await waits until all addresses answer, as seen from the host of the load.
func (t *onHosts) await(ctx context.Context, addresses []string) error {
	if len(addresses) == 0 {
		return nil
	}
	_, err := t.output(ctx, Load, "mcmwlab agent", t.programs.Mcmwlab,
		agent.Task{Await: addresses}.Args()...)
	return err
}

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
