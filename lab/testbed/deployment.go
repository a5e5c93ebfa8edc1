package testbed

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"mcmw/lab/agent"
	"mcmw/lab/experiment"
	"mcmw/lab/load"
	"mcmw/lab/record"
)

const (
	// loadAllowance is how much longer a load may take than its warm-up and duration: to connect, and for its last
	// replies.
	loadAllowance = 60 * time.Second
	// loadOverlap is how long load processes continue after their recording. So processes that began later are recorded
	// with the full load, and the middlewares' last windows have the full load, too.
	loadOverlap = 500 * time.Millisecond
	// populateTimeout bounds the time for storing all keys.
	populateTimeout = 30 * time.Minute
	// noticeAllowance is how long to wait for the end of a server or middleware that might explain why load has failed.
	noticeAllowance = 300 * time.Millisecond
	// shortestSample is the shortest time between two samples, which cost processor time themselves.
	shortestSample = 50 * time.Millisecond
	// statisticsAllowance is how much longer than its length to wait for the last window of a middleware's statistics.
	statisticsAllowance = 5 * time.Second
)

// deployment is a set of servers and middlewares on hosts.
type deployment struct {
	t           *onHosts
	servers     []Member
	relays      []Member // delay the servers' replies; empty without a delay
	middlewares []Member
	scratches   []Process // own the directories of servers that write to disk
}

// serverName returns the name of server i, counted from 0.
func serverName(i int) string { return "s" + strconv.Itoa(i+1) }

func (d *deployment) start(ctx context.Context, v experiment.Values) (err error) {
	if d.servers, err = startEach(ctx, v, v.Int(experiment.Servers), d.startServer); err != nil {
		return err
	}
	if err := d.startRelays(ctx, v.Duration(experiment.ServerDelay)); err != nil {
		return err
	}
	if err := d.await(ctx, d.servers); err != nil {
		return err
	}
	if err := d.pinServers(ctx, v); err != nil {
		return err
	}
	if d.middlewares, err = startEach(ctx, v, v.Int(experiment.Middlewares), d.startMiddleware); err != nil {
		return err
	}
	return d.await(ctx, d.middlewares)
}

// startEach starts n members. If one fails it returns those before.
func startEach(ctx context.Context, v experiment.Values, n int,
	start func(context.Context, experiment.Values, int) (Member, error),
) (members []Member, err error) {
	for i := range n {
		m, err := start(ctx, v, i)
		if err != nil {
			return members, err
		}
		members = append(members, m)
	}
	return members, nil
}

// startRelays starts a relay in front of every server. From then on the server is reached through its relay. Without a
// delay it starts none.
func (d *deployment) startRelays(ctx context.Context, delay time.Duration) error {
	if delay == 0 {
		return nil
	}
	for i := range d.servers {
		server := &d.servers[i]
		m, err := d.startMember(ctx, Server, i, "relay:"+serverName(i), func(host string, port int) Program {
			relay := agent.Relay{Listen: net.JoinHostPort(host, strconv.Itoa(port)), To: server.Address, Delay: delay}
			return d.t.task("", agent.Task{Delay: &relay})
		})
		if err != nil {
			return err
		}
		d.relays = append(d.relays, m)
		server.Address = m.Address
	}
	return nil
}

func (d *deployment) startMember(ctx context.Context, role Role, index int, name string,
	program func(host string, port int) Program,
) (m Member, err error) {
	host := d.t.hosts.host(role, index)
	port, err := host.FreePort(ctx)
	if err != nil {
		return m, err
	}
	p := program(host.Address(), port)
	p.Name = name
	m, err = d.t.start(ctx, role, index, p)
	m.Address = net.JoinHostPort(host.Address(), strconv.Itoa(port))
	return m, err
}

// await waits until members answer. It fails if any member of the deployment ends.
func (d *deployment) await(ctx context.Context, members []Member) error {
	var addresses []string
	for _, m := range members {
		addresses = append(addresses, m.Address)
	}
	ctx, stop := d.watch(ctx)
	defer stop()
	return d.t.await(ctx, addresses)
}

// watch returns a context that ends, with the reason as its cause, when a member ends, and when stop is called.
func (d *deployment) watch(ctx context.Context) (watched context.Context, stop func()) {
	watched, cancel := context.WithCancelCause(ctx)
	var watchers sync.WaitGroup
	for _, m := range d.all() {
		watchers.Go(func() {
			select {
			case <-m.Done():
				cancel(m.Ended())
			case <-watched.Done():
			}
		})
	}
	return watched, func() {
		cancel(nil)
		watchers.Wait()
	}
}

func (d *deployment) all() []Member { return slices.Concat(d.servers, d.relays, d.middlewares) }

// ended returns an error if any member has ended.
func (d *deployment) ended() error {
	var problems []error
	for _, m := range d.all() {
		problems = append(problems, m.Ended())
	}
	return errors.Join(problems...)
}

// Stop ends the middlewares, then the servers.
func (d *deployment) Stop() {
	var stopping sync.WaitGroup
	for _, m := range d.middlewares {
		stopping.Go(func() { m.Stop(syscall.SIGTERM) })
	}
	stopping.Wait()
	// A cache has nothing to save, and reacts to other signals only at its next tick. A server that writes to disk can
	// have a child that writes.
	signal := syscall.SIGKILL
	if len(d.scratches) > 0 {
		signal = syscall.SIGTERM
	}
	for _, m := range d.relays {
		stopping.Go(func() { m.Stop(syscall.SIGKILL) })
	}
	for _, m := range d.servers {
		stopping.Go(func() { m.Stop(signal) })
	}
	stopping.Wait()
	for _, s := range d.scratches {
		s.Stop(syscall.SIGTERM)
	}
}

// targets returns the addresses for load: the middlewares, or the servers if there are none.
func (d *deployment) targets() (targets []string) {
	members := d.middlewares
	if len(members) == 0 {
		members = d.servers
	}
	for _, m := range members {
		targets = append(targets, m.Address)
	}
	return targets
}

// loadArgs returns the arguments of a load process without its timing.
func loadArgs(v experiment.Values, targets []string) []string {
	args := []string{"load", "--quiet", "--json-out-file", "-"}
	if v[experiment.Server] == experiment.Redis {
		args = append(args, "--protocol", "redis")
	}
	for _, target := range targets {
		args = append(args, "--target", target)
	}
	return slices.Concat(args, []string{"--key-minimum", "1"}, v.Args(experiment.Populate),
		v.Flags(experiment.LoadFlags))
}

// Populate stores every key once: through one middleware, which places it, or on every server if there is none that
// does.
func (d *deployment) Populate(ctx context.Context, v experiment.Values) error {
	v = d.t.slowed(v)
	ctx, cancel := context.WithTimeoutCause(ctx, populateTimeout,
		fmt.Errorf("storing %s keys took longer than %v", v[experiment.Keys], populateTimeout))
	defer cancel()
	targets := d.targets()
	if d.t.programs.Systems[v[experiment.System]].Kind == experiment.Floor {
		targets = (&deployment{servers: d.servers}).targets()
	} else if len(d.middlewares) > 0 {
		targets = targets[:1]
	}
	p, err := d.t.start(ctx, Load, 0,
		Program{
			Name: "populating load", Path: d.t.programs.Mcmwlab, Args: populateArgs(v, targets),
			Stdout: new(bytes.Buffer), CPUs: v.Processors(experiment.LoadCPUs),
		})
	if err != nil {
		return err
	}
	return d.failure(ctx, awaitEnd(ctx, p))
}

// populateArgs returns the arguments of the load that stores every key. Flags for an open loop among the further flags
// need the rate.
func populateArgs(v experiment.Values, targets []string) []string {
	args := append(loadArgs(v, targets), "--clients", strconv.Itoa(len(targets)), "--populate", "--ratio", "0:1",
		"--requests", "1")
	if v.Is(experiment.Rate) {
		args = append(args, "--rate", v[experiment.Rate])
	}
	return args
}

// failure returns why something failed: the end of a server or middleware, if one has ended, otherwise err. Load can
// notice broken connections before the end of the program at their other end is known.
func (d *deployment) failure(ctx context.Context, err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, noticeAllowance)
	defer cancel()
	ctx, stop := d.watch(ctx)
	defer stop()
	<-ctx.Done()
	return cmp.Or(d.ended(), err)
}

// Measure starts the load processes and the samplers, waits for the end of the load, and returns the outputs.
func (d *deployment) Measure(ctx context.Context, m Measurement) (*Outputs, error) {
	m.Values = d.t.slowed(m.Values)
	m.WarmUp, m.Duration = experiment.Dilated(m.WarmUp, d.t.dilation()), experiment.Dilated(m.Duration, d.t.dilation())
	limit := m.WarmUp + m.Duration + loadAllowance
	ctx, cancelLate := context.WithTimeoutCause(ctx, limit,
		fmt.Errorf("the load has not ended %v after its duration", loadAllowance))
	defer cancelLate()
	ctx, stop := d.watch(ctx)
	defer stop()

	for _, mw := range d.middlewares {
		if mw.Log != nil {
			mw.Log.restart()
		}
	}
	run := &run{d: d}
	defer run.stop()
	err := run.start(ctx, m)
	if err == nil {
		err = run.await(ctx)
	}
	if err == nil {
		run.awaitStatistics(ctx)
	}
	run.stop()
	return run.outputs(), err
}

// run is one measurement in progress.
type run struct {
	d                          *deployment
	loads, samplers, profilers []Member
}

func (r *run) start(ctx context.Context, m Measurement) error {
	v := m.Values
	targets := r.d.targets()
	processes, threads := v.Int(experiment.LoadProcesses), v.Int(experiment.LoadThreads)
	for i := range processes {
		// Every process begins with another target, so that even a few clients are spread over the targets.
		begin := i * (v.Int(experiment.Clients) / processes) % len(targets)
		args := append(loadArgs(v, append(targets[begin:len(targets):len(targets)], targets[:begin]...)),
			"--clients", strconv.Itoa(v.Int(experiment.Clients)/(processes*threads)), "--threads",
			strconv.Itoa(threads),
			"--warm-up", m.WarmUp.String(), "--test-time", m.Duration.String(), "--seed",
			strconv.FormatUint(m.Seed+uint64(i), 10))
		args = append(args, measuredArgs(v, processes)...)
		args = append(args, overlapArgs(v)...)
		out := new(bytes.Buffer)
		l, err := r.d.t.start(ctx, Load, i, Program{
			Name: "client:" + strconv.Itoa(i), Path: r.d.t.programs.Mcmwlab, Args: args, Stdout: out,
			CPUs: v.Processors(experiment.LoadCPUs),
		})
		if err != nil {
			return err
		}
		l.out = out
		r.loads = append(r.loads, l)
	}
	for _, mw := range r.d.middlewares {
		if mw.Admin == "" {
			continue
		}
		p, err := r.d.t.report(ctx, mw.host, "profiler of "+mw.Name,
			agent.Task{Profile: &agent.Profiled{Address: mw.Admin, After: m.WarmUp, For: m.Duration}})
		if err != nil {
			return err
		}
		r.profilers = append(r.profilers, p)
	}
	return r.startSamplers(ctx, min(time.Second, max(m.Duration/20, shortestSample)))
}

// overlapArgs returns the arguments that make load continue after its recording. Open loops and other load generators
// cannot do that.
func overlapArgs(v experiment.Values) []string {
	isDriver := func(flag string) bool { return flag == "--driver" || strings.HasPrefix(flag, "--driver=") }
	if v.Is(experiment.Rate) || slices.ContainsFunc(v.Flags(experiment.LoadFlags), isDriver) {
		return nil
	}
	return []string{"--cool-down", loadOverlap.String()}
}

// measuredArgs returns the flags of load that is measured. An open loop can have other defaults.
func measuredArgs(v experiment.Values, processes int) []string {
	args := v.Args(experiment.Load)
	if v.Is(experiment.Rate) {
		args = append(args, "--rate", strconv.FormatFloat(float64(v.Int(experiment.Rate))/float64(processes), 'f',
			-1, 64))
	}
	return args
}

// startSamplers starts a sampler on each host with a program of the run, and on the machine that emulates the hosts.
func (r *run) startSamplers(ctx context.Context, interval time.Duration) error {
	watched := map[Host]*agent.Watched{}
	watch := func(host Host, name, process string) {
		if watched[host] == nil {
			watched[host] = &agent.Watched{Processes: map[string]string{}}
			if sampled, ok := host.(Sampled); ok {
				watched[host].Group, watched[host].CPUs = sampled.Group()
			}
		}
		watched[host].Processes[name] = process
	}
	for _, m := range append(r.d.all(), r.loads...) {
		switch {
		case m.host != nil:
			watch(m.host, m.Name, strconv.Itoa(m.Pid()))
		case m.Metrics != "":
			watch(r.loads[0].host, m.Name, m.Metrics)
		}
	}
	if ground := r.d.t.hosts.Ground; ground != nil {
		// The lab's own usage counts: it delays the packets of emulated machines.
		watch(ground, record.SourceLab, strconv.Itoa(os.Getpid()))
	}
	for host, what := range watched {
		what.Interval = interval
		s, err := r.d.t.report(ctx, host, "sampler of "+host.Name(), agent.Task{Sample: what})
		if err != nil {
			return err
		}
		r.samplers = append(r.samplers, s)
	}
	return nil
}

// await waits until all load has ended. The first process that fails ends the others.
func (r *run) await(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var waiting sync.WaitGroup
	for _, p := range slices.Concat(r.loads, r.profilers) {
		waiting.Go(func() {
			if err := awaitEnd(ctx, p); err != nil {
				cancel(err)
			}
		})
	}
	waiting.Wait()
	if ctx.Err() == nil {
		return nil
	}
	return r.d.failure(context.WithoutCancel(ctx), context.Cause(ctx))
}

// awaitStatistics waits until every middleware has written a window that ends after the load.
func (r *run) awaitStatistics(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, statisticsWindow+statisticsAllowance)
	defer cancel()
	var end time.Time
	for _, l := range r.loads {
		var result load.Result
		if json.Unmarshal(l.out.Bytes(), &result) == nil {
			if e := result.Started.Add(result.Elapsed); e.After(end) {
				end = e
			}
		}
	}
	for _, m := range r.d.middlewares {
		if m.Log != nil {
			m.Log.await(ctx, end)
		}
	}
}

// stop ends the programs of the run that still run.
func (r *run) stop() {
	for _, p := range slices.Concat(r.loads, r.samplers, r.profilers) {
		p.Stop(syscall.SIGTERM)
	}
}

// outputs returns what the programs have written; all have ended.
func (r *run) outputs() *Outputs {
	o := &Outputs{Hosts: map[string][]byte{}, Dilation: r.d.t.hosts.Dilation}
	for _, l := range r.loads {
		o.Loads = append(o.Loads, l.out.Bytes())
	}
	for _, m := range r.d.middlewares {
		if m.Log != nil {
			o.Middlewares = append(o.Middlewares, m.Log.text())
		}
	}
	for _, p := range r.profilers {
		o.Profiles = append(o.Profiles, p.out.Bytes())
	}
	for _, s := range r.samplers {
		if s.host == r.d.t.hosts.Ground {
			o.Ground = s.out.Bytes()
		} else {
			o.Hosts[s.host.Name()] = s.out.Bytes()
		}
	}
	return o
}
