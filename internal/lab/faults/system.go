package faults

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"mcmw/internal/faulty"
	"mcmw/internal/lab/cgroup"
	"mcmw/internal/lab/process"
)

// Programs are the paths of the programs.
type Programs struct {
	Mcmw, Memcached string
}

// errNotHere is why this machine can't have a system.
type errNotHere struct{ error }

// versioned returns the path of a memcached that takes an explicit cas, as several writers need: the one that the environment names, or the one
// that others use, too.
func (p Programs) versioned(ctx context.Context) (string, error) {
	path := cmp.Or(os.Getenv("MCMW_MEMCACHED_NEW"), p.Memcached)
	said, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return "", errNotHere{fmt.Errorf("%s --version: %w", path, err)}
	}
	version := strings.TrimSpace(string(said))
	var major, minor, patch int
	if _, err := fmt.Sscanf(version, "memcached %d.%d.%d", &major, &minor, &patch); err != nil || slices.Compare([]int{major, minor, patch}, []int{1, 6, 27}) < 0 {
		return "", errNotHere{fmt.Errorf("%s is %q: several writers need memcached 1.6.27 or later", path, version)}
	}
	return path, nil
}

// settings say what a system consists of.
type settings struct {
	servers int
	args    []string // of `mcmw serve`
	fixed   []string // names of options that pools sets for all of them
	proxies bool     // a faulty proxy stands before every server
	spaced  bool     // the server that is to fail is in a network namespace of its own
	named   bool     // mcmw finds the servers by SRV records
	liars   bool     // a liar stands before every server
	memory  int64    // that the kernel gives mcmw, bytes; 0: no bound
	logins  bool     // clients have to log in
	files   int      // that mcmw may open; 0: as many as this process may
	recent  bool     // the servers are those that several writers need
	fleet   bool     // a second mcmw is before the servers, and reaches them past their proxies
	shadow  bool     // a server more is the shadow of the pool of all others
	large   bool     // many values are large; see largeKeys
	// age is how old answers from memory may be; 0: mcmw gives none.
	age time.Duration
	// pools returns the file of options for servers, as --servers takes them, which are in several pools; nil: flags alone.
	pools func(s *system, servers []string) string
}

// zone is the domain of the servers' names, and service the name of their SRV records.
const (
	zone    = "cache.test"
	service = "_memcache._tcp." + zone
)

// victim is the server that fails where one does.
const victim = 1

// server is one memcached, and what stands before it.
type server struct {
	name  string
	host  string
	port  int
	proc  *process.Process // nil while there is none
	space *namespace       // nil: none
	proxy *faulty.Proxy    // nil: none
	liar  *faulty.Liar     // nil: none
}

// addr is where mcmw finds the server.
func (s *server) addr() string {
	switch {
	case s.proxy != nil:
		return s.proxy.Addr()
	case s.liar != nil:
		return s.liar.Addr()
	}
	return s.own()
}

// own is the address that the server itself listens on.
func (s *server) own() string { return net.JoinHostPort(s.host, strconv.Itoa(s.port)) }

// system is a middleware with its servers, all of them processes.
type system struct {
	programs  Programs
	settings  settings
	servers   []*server
	shadow    *server // nil: there is none
	mcmw      *process.Process
	listen    string // of mcmw
	admin     admin
	second    *process.Process // the second mcmw; nil: none
	admins    []admin          // of all mcmw
	began     time.Time        // of the system
	events    *events
	dns       *faulty.DNS      // nil unless servers are named
	former    *process.Process // of the victim, at the address it had before; nil if there is none
	spaces    int              // of keys that were in use
	groups    *cgroup.Owner    // of the group that mcmw is in; nil if it is in none of its own
	join      func(pid int) error
	passwords string   // file of those who may log in; "" if nobody has to
	files     []string // configuration files
	rerouted  bool     // see reroute
	siege     *siege   // an attack that is under way; nil: none
	broken    []string // promises that a scenario itself saw broken
}

// startSystem starts the servers and the middleware. Of what could be started stop ends everything.
func startSystem(ctx context.Context, programs Programs, o settings) (_ *system, err error) {
	s := &system{programs: programs, settings: o, began: time.Now(), events: newEvents()}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.stop())
		}
	}()
	if o.fleet || o.recent {
		if s.programs.Memcached, err = programs.versioned(ctx); err != nil {
			return s, err
		}
	}
	for i := range o.servers {
		// Addresses of their own: a port that a dead server leaves can't be taken by an outgoing connection.
		server := &server{name: fmt.Sprintf("server-%d", i+1), host: fmt.Sprintf("127.0.0.%d", i+2)}
		s.servers = append(s.servers, server)
		if o.spaced && i == victim {
			if server.space, err = newNamespace(); err != nil {
				return s, err
			}
			server.host = server.space.address
		}
		if err := s.startServer(ctx, i); err != nil {
			return s, err
		}
		if o.proxies {
			if server.proxy, err = faulty.StartProxy(server.own()); err != nil {
				return s, err
			}
		}
	}
	for _, server := range s.servers {
		if o.liars {
			if server.liar, err = faulty.StartLiar(server.own()); err != nil {
				return s, err
			}
		}
	}
	if o.shadow {
		s.shadow = &server{name: "shadow", host: fmt.Sprintf("127.0.0.%d", len(s.servers)+2)}
		if err = s.launch(ctx, s.shadow); err != nil {
			return s, err
		}
	}
	if o.memory > 0 {
		if err = s.bound(o.memory); err != nil {
			return s, err
		}
	}
	if o.named {
		if s.dns, err = faulty.StartDNS(); err != nil {
			return s, err
		}
		s.publish()
	}
	if o.logins {
		if s.passwords, err = writePasswords(); err != nil {
			return s, err
		}
	}
	return s, s.startMcmw(ctx)
}

// bound makes the group that mcmw is to be in.
func (s *system) bound(memory int64) error {
	tree, err := cgroup.Find()
	if err != nil {
		return errNotHere{err}
	}
	if s.groups, err = tree.Own(); err != nil {
		return err
	}
	group, err := s.groups.Make("mcmw", cgroup.Limits{Memory: memory})
	if err != nil {
		return errNotHere{err}
	}
	s.join = func(pid int) (err error) {
		for _, file := range group.ProcessFiles() {
			err = errors.Join(err, os.WriteFile(file, []byte(strconv.Itoa(pid)), 0))
		}
		return err
	}
	return nil
}

// publish tells the name server where the servers are.
func (s *system) publish() {
	var targets []faulty.Target
	for i, server := range s.servers {
		host := fmt.Sprintf("server-%d.%s", i+1, zone)
		// As mcmw calls it.
		server.name = fmt.Sprintf("server-%d:%d", i+1, server.port)
		s.dns.SetAddrs(host, server.host)
		targets = append(targets, faulty.Target{Host: host, Port: server.port})
	}
	s.dns.SetSRV(service, targets...)
}

// move starts another server in place of the victim, at another address, and updates the name server. The former server keeps running.
func (s *system) move(ctx context.Context) error {
	server := s.servers[victim]
	s.former = server.proc
	server.host = fmt.Sprintf("127.0.0.%d", len(s.servers)+2)
	if err := s.startServer(ctx, victim); err != nil {
		return err
	}
	s.publish()
	return nil
}

// endFormer ends the server that the victim has left behind.
func (s *system) endFormer() {
	if s.former != nil {
		s.former.Stop(syscall.SIGKILL)
		s.former = nil
	}
}

// startServer starts server i, empty; not the first time at the address it had.
func (s *system) startServer(ctx context.Context, i int) error { return s.launch(ctx, s.servers[i]) }

// launch is startServer.
func (s *system) launch(ctx context.Context, server *server) error {
	command := func() *exec.Cmd {
		return process.Memcached(s.programs.Memcached, server.host, server.port, "-t", "2", "-m", "64")
	}
	start := func() (err error) {
		server.proc, err = process.Start(server.name, server.own(), command())
		return err
	}
	var err error
	switch {
	case server.space != nil:
		server.port = 11211 // nobody else is there
		err = server.space.inner.Do(start)
	case server.port != 0:
		err = start()
	default:
		server.proc, err = process.Launch(ctx, server.name, server.host, func(port int) (*exec.Cmd, error) {
			server.port = port
			return command(), nil
		})
		return err
	}
	if err != nil {
		return err
	}
	return server.proc.AwaitReady(ctx)
}

// writePools writes the configuration of pools with servers, and returns the file's path. What fails the middleware will say.
func (s *system) writePools(servers []string) string {
	file, err := os.CreateTemp("", "mcmw-pools-*.yaml")
	if err != nil {
		return err.Error()
	}
	defer file.Close()
	_, _ = file.WriteString(s.settings.pools(s, servers))
	s.files = append(s.files, file.Name())
	return file.Name()
}

// names returns the servers as mcmw is told of them.
func (s *system) names(addr func(*server) string) []string {
	var names []string
	for _, server := range s.servers {
		names = append(names, server.name+"="+addr(server))
	}
	return names
}

// middlewareHost is where the middleware listens: a port that it leaves for a moment can't be taken by an outgoing connection.
const middlewareHost = "127.0.0.100"

// startMcmw starts the middlewares and waits until they serve.
func (s *system) startMcmw(ctx context.Context) error {
	var err error
	if s.listen, s.admin, err = placeMcmw(); err != nil {
		return err
	}
	s.admins = []admin{s.admin}
	if err := s.launchMcmw(); err != nil {
		return err
	}
	if s.settings.fleet {
		listen, at, err := placeMcmw()
		if err != nil {
			return err
		}
		if s.second, err = process.Start("the second mcmw", listen, s.command(listen, at, (*server).own)); err != nil {
			return err
		}
		s.admins = append(s.admins, at)
		if err := s.second.AwaitReady(ctx); err != nil {
			return err
		}
	}
	return s.awaitServing(ctx)
}

// placeMcmw returns addresses for a middleware.
func placeMcmw() (listen string, at admin, err error) {
	var addrs [2]string
	for i := range addrs {
		port, err := process.FreePort(middlewareHost)
		if err != nil {
			return "", at, err
		}
		addrs[i] = net.JoinHostPort(middlewareHost, strconv.Itoa(port))
	}
	return addrs[0], admin{addrs[1]}, nil
}

// entrances are the addresses of the middlewares.
func (s *system) entrances() []string {
	addrs := []string{s.mcmw.Addr}
	if s.second != nil {
		addrs = append(addrs, s.second.Addr)
	}
	return addrs
}

// awaitServing waits until the middleware answers a client.
func (s *system) awaitServing(ctx context.Context) error {
	if !s.settings.logins {
		return s.mcmw.AwaitReady(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, process.ReadyTimeout)
	defer cancel()
	for {
		conn, err := net.Dial("tcp", s.listen)
		if err == nil {
			err = visit(conn)
			conn.Close()
		}
		if err == nil {
			return nil
		}
		if err := sleep(ctx, redialPause); err != nil {
			return errors.Join(s.mcmw.Ended(), err)
		}
	}
}

// command returns a middleware at the given addresses, which reaches each server where addr says.
func (s *system) command(listen string, at admin, addr func(*server) string) *exec.Cmd {
	names := s.names(addr)
	source, value := "--servers", strings.Join(names, ",")
	switch {
	case s.dns != nil:
		value = "srv+" + service + "."
	case s.settings.pools != nil:
		source, value = "--config", s.writePools(names)
	}
	return exec.Command(s.programs.Mcmw, slices.Concat([]string{"serve", "--listen", listen, source, value, "--admin", at.addr, "--log-format", "json"}, s.settings.args)...)
}

// launchMcmw starts the middleware at its addresses.
func (s *system) launchMcmw() (err error) {
	cmd := s.command(s.listen, s.admin, (*server).addr)
	if s.dns != nil {
		cmd.Args = append(cmd.Args, "--resolver", s.dns.Addr())
	}
	if s.passwords != "" {
		cmd.Args = append(cmd.Args, "--auth-file", s.passwords)
	}
	if s.settings.files > 0 {
		cmd = exec.Command("prlimit", append([]string{fmt.Sprintf("--nofile=%d", s.settings.files)}, cmd.Args...)...)
	}
	cmd.Stderr = s.events
	join := func(int) error { return nil }
	if s.join != nil {
		join = s.join
	}
	s.mcmw, err = process.StartPrepared("mcmw", s.listen, cmd, join)
	return err
}

// relaunchMcmw ends the middleware by a signal and starts it again, without waiting until it serves.
func (s *system) relaunchMcmw(signal syscall.Signal) error {
	if err := s.mcmw.Ended(); err != nil {
		return err
	}
	s.mcmw.Stop(signal)
	if code := s.mcmw.ExitCode(); signal == syscall.SIGTERM && code != 0 {
		s.broken = append(s.broken, fmt.Sprintf("mcmw exited with code %d at SIGTERM", code))
	}
	return s.launchMcmw()
}

// stop ends everything, and returns an error if the middleware had ended before or did not end in order.
func (s *system) stop() (err error) {
	if s.siege != nil {
		s.siege.end()
	}
	for i, server := range s.servers {
		if server.proc != nil {
			s.kill(i)
		}
	}
	s.endFormer()
	if s.shadow != nil && s.shadow.proc != nil {
		s.shadow.proc.Stop(syscall.SIGKILL)
	}
	if s.mcmw != nil {
		err = s.mcmw.Ended()
		s.mcmw.Stop(syscall.SIGTERM)
		if code := s.mcmw.ExitCode(); err == nil && code != 0 {
			err = fmt.Errorf("mcmw exited with code %d at SIGTERM", code)
		}
	}
	if s.second != nil {
		err = errors.Join(err, s.second.Ended())
		s.second.Stop(syscall.SIGTERM)
	}
	if s.dns != nil {
		s.dns.Stop()
	}
	if s.passwords != "" {
		err = errors.Join(err, os.RemoveAll(filepath.Dir(s.passwords)))
	}
	for _, file := range s.files {
		err = errors.Join(err, os.Remove(file))
	}
	for _, server := range s.servers {
		if server.proxy != nil {
			server.proxy.Stop()
		}
		if server.liar != nil {
			server.liar.Stop()
		}
		if server.space != nil {
			err = errors.Join(err, server.space.remove())
		}
	}
	if s.groups != nil {
		err = errors.Join(err, s.groups.Close())
	}
	return err
}

// empty makes the server forget everything.
func (s *server) empty() error {
	conn, err := net.Dial("tcp", s.own())
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("flush_all\r\n")); err != nil {
		return err
	}
	reply, err := bufio.NewReader(conn).ReadString('\n')
	if err == nil && reply != "OK\r\n" {
		err = fmt.Errorf("%s answers flush_all with %q", s.name, reply)
	}
	return err
}

// kill ends server i at once; a cache has nothing to save.
func (s *system) kill(i int) {
	s.servers[i].proc.Stop(syscall.SIGKILL)
	s.servers[i].proc = nil
}

// freeze suspends server i: its kernel still accepts connections, but nothing is answered.
func (s *system) freeze(i int) error { return s.servers[i].proc.Signal(syscall.SIGSTOP) }

// thaw lets a frozen server go on.
func (s *system) thaw(i int) error { return s.servers[i].proc.Signal(syscall.SIGCONT) }

// all returns the servers, and the shadow.
func (s *system) all() []*server {
	if s.shadow == nil {
		return s.servers
	}
	return append(slices.Clip(s.servers), s.shadow)
}

// awaitUp waits until every middleware has every server up.
func (s *system) awaitUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	for {
		var missing []string
		for _, a := range s.admins {
			m, err := a.metrics(ctx)
			if err != nil {
				return errors.Join(s.mcmw.Ended(), err)
			}
			for _, server := range s.all() {
				if m[fmt.Sprintf("mcmw_server_state{server=%q,state=\"up\"}", server.name)] != 1 {
					missing = append(missing, server.name)
				}
			}
		}
		if len(missing) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%v after the end of the fault not yet up: %s", answerWithin, strings.Join(missing, ", "))
		case <-time.After(20 * time.Millisecond):
		}
	}
}
