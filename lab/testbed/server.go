package testbed

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"

	"mcmw/lab/agent"
	"mcmw/lab/experiment"
)

// nowhere is a directory in which nobody can write, not even root. It is the directory of a Redis that must keep
// everything in memory.
const nowhere = "/proc"

func (d *deployment) startServer(ctx context.Context, v experiment.Values, i int) (Member, error) {
	dir := nowhere
	if v.Is(experiment.ServerPersistence) {
		var err error
		if dir, err = d.scratch(ctx, i); err != nil {
			return Member{}, err
		}
	}
	return d.startMember(ctx, Server, i, "server:"+serverName(i), func(host string, port int) Program {
		p := Program{Path: d.t.programs.Memcached, CPUs: v.Processors(experiment.ServerCPUs)}
		if v[experiment.Server] == experiment.Redis {
			p.Path, p.Args = d.t.programs.Redis, redisArgs(v, host, port, dir)
		} else {
			p.Args = memcachedArgs(v, host, port)
		}
		return p
	})
}

// ServerConnections returns how many connections a server must accept: every worker has one to every server, sometimes
// one or two more; without middlewares the clients connect themselves.
func ServerConnections(v experiment.Values) int {
	return v.Int(experiment.Clients) + v.Int(experiment.Middlewares)*v.Int(experiment.Workers)*2 + 4096
}

func memcachedArgs(v experiment.Values, host string, port int) []string {
	args := []string{
		"-l", host, "-p", strconv.Itoa(port), "-U", "0", "-c", strconv.Itoa(ServerConnections(v)),
		"-u", "root", // needed to run as root, otherwise ignored
	}
	return slices.Concat(args, v.Args(experiment.Memcached), v.Flags(experiment.ServerFlags))
}

// redisArgs returns the arguments of a Redis in a directory: a cache that writes nothing to disk, unless v asks for
// persistence.
func redisArgs(v experiment.Values, host string, port int, dir string) []string {
	args := []string{
		"--bind", host, "--port", strconv.Itoa(port), "--protected-mode", "no", "--daemonize", "no", "--dir", dir,
		"--loglevel", "warning",
		"--io-threads", v[experiment.ServerThreads], "--maxclients", strconv.Itoa(ServerConnections(v)),
		"--maxmemory", v[experiment.ServerMemory] + "mb", "--maxmemory-policy", "allkeys-lru",
	}
	persistence := map[string][]string{
		"none":          {"--save", "", "--appendonly", "no"},
		"snapshot":      {"--save", "1 1", "--appendonly", "no"},
		"append":        {"--save", "", "--appendonly", "yes", "--appendfsync", "everysec"},
		"append-always": {"--save", "", "--appendonly", "yes", "--appendfsync", "always"},
	}[v[experiment.ServerPersistence]]
	return slices.Concat(args, persistence, v.Flags(experiment.ServerFlags))
}

// scratch makes a directory in which a server can write. It is removed when the deployment is stopped.
func (d *deployment) scratch(ctx context.Context, i int) (dir string, err error) {
	r, w := io.Pipe()
	task := d.t.task("directory of server:"+serverName(i), agent.Task{Scratch: true})
	task.Stdout = w
	p, err := d.t.start(ctx, Server, i, task)
	if err != nil {
		return "", err
	}
	d.scratches = append(d.scratches, p)
	go func() {
		select {
		case <-p.Done():
		case <-ctx.Done():
		}
		w.CloseWithError(io.ErrUnexpectedEOF)
	}()
	if _, err := fmt.Fscanln(r, &dir); err != nil {
		return "", fmt.Errorf("making a directory for server:%s: %w", serverName(i), err)
	}
	return dir, nil
}

// pinServers binds servers, or their threads, to processors of their own. Each host's processors are assigned in turn.
func (d *deployment) pinServers(ctx context.Context, v experiment.Values) error {
	mode := v[experiment.ServerPinning]
	if mode == experiment.NotPinned {
		return nil
	}
	assigned := map[Host]int{}
	for i, m := range d.servers {
		pinned := agent.Pinned{Process: m.Pid(), First: assigned[m.host]}
		assigned[m.host]++
		if mode == experiment.PinnedThread {
			pinned.Threads = v.Int(experiment.ServerThreads)
			assigned[m.host] += pinned.Threads - 1
		}
		// The agent assigns the processors that it may use itself: those of the server.
		task := d.t.task("mcmwlab agent pin", agent.Task{Pin: &pinned})
		task.CPUs = v.Processors(experiment.ServerCPUs)
		p, err := d.t.start(ctx, Server, i, task)
		if err == nil {
			err = awaitEnd(ctx, p)
		}
		if err != nil {
			return fmt.Errorf("binding %s to processors of its own: %w", m.Name, err)
		}
	}
	return nil
}
