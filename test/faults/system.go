package main

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
	"mcmw/lab/cgroup"
	"mcmw/test/history"
)

// Programs are the paths of the programs to run.
type Programs struct {
	Mcmw, Memcached string
}

// errNotHere is the reason why this machine cannot run a system.
type errNotHere struct{ error }

// versioned returns the path of a memcached that accepts an explicit cas, which several writers need: the one in
// MCMW_MEMCACHED_NEW, or p.Memcached if that is new enough.
func (p Programs) versioned(ctx context.Context) (string, error) {
	path := cmp.Or(os.Getenv("MCMW_MEMCACHED_NEW"), p.Memcached)
	output, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return "", errNotHere{fmt.Errorf("%s --version: %w", path, err)}
	}
	version := strings.TrimSpace(string(output))
	var major, minor, patch int
	if _, err := fmt.Sscanf(version, "memcached %d.%d.%d", &major, &minor, &patch); err != nil ||
		slices.Compare([]int{major, minor, patch}, []int{1, 6, 27}) < 0 {
		return "", errNotHere{fmt.Errorf("%s is %q: several writers need memcached 1.6.27 or later", path, version)}
	}
	return path, nil
}

// settings describe a system.
type settings struct {
	servers int
	args    []string // arguments of `mcmw serve`
	fixed   []string // names of options that pools sets in its file
	proxies bool     // a faulty proxy in front of every server
	spaced  bool     // the victim is in a network namespace of its own
	named   bool     // mcmw finds the servers by SRV records
	liars   bool     // a liar in front of every server
	memory  int64    // mcmw's memory limit, bytes; 0: none
	logins  bool     // clients must log in
	files   int      // how many files mcmw may open; 0: as many as this process
	recent  bool     // the servers are new enough for several writers
	fleet   bool     // a second mcmw is in front of the servers and bypasses their proxies
	third   bool     // so is a third one
	shadow  bool     // one more server is the shadow of the pool of all others
	follows bool     // one more server, far away, is a pool that follows the pool of all others
	large   bool     // many values are large; see largeKeys
	// age is how old answers from memory may be; 0: mcmw answers nothing from memory.
	age time.Duration
	// pools returns the configuration file that puts servers, written as for --servers, into several pools; nil: flags
	// suffice.
	pools func(s *system, servers []string) string
}

// others returns how many mcmw instances there are besides the first.
func (o settings) others() int {
	switch {
	case o.third:
		return 2
	case o.fleet:
		return 1
	}
	return 0
}

// zone is the domain of the servers' names, service the name of their SRV records.
const (
	zone    = "cache.test"
	service = "_memcache._tcp." + zone
)

// victim is the number of the server that fails.
const victim = 1

// server is one memcached, and the proxy or liar in front of it.
type server struct {
	name  string
	host  string
	port  int
	proc  *daemon       // nil while there is none
	space *namespace    // nil: none
	proxy *faulty.Proxy // nil: none
	liar  *faulty.Liar  // nil: none
}

// addr is the address at which mcmw reaches the server.
func (s *server) addr() string {
	switch {
	case s.proxy != nil:
		return s.proxy.Addr()
	case s.liar != nil:
		return s.liar.Addr()
	}
	return s.own()
}

// own is the address on which the server itself listens.
func (s *server) own() string { return net.JoinHostPort(s.host, strconv.Itoa(s.port)) }

// system is a running middleware with its servers. All of them are processes.
type system struct {
	programs  Programs
	settings  settings
	servers   []*server
	shadow    *server // nil: none
	follower  *server // of the pool that follows; nil: none
	mcmw      *daemon
	listen    string // address of mcmw
	admin     admin
	others    []*daemon // further mcmw instances
	admins    []admin   // of all mcmw instances
	began     time.Time // when the system was started
	events    *events
	dns       *faulty.DNS   // nil unless servers are named
	previous  *daemon       // the victim's process at its previous address; nil: none
	spaces    int           // how many key spaces have been used
	groups    *cgroup.Owner // owner of group
	group     *cgroup.Group // mcmw's control group; nil: it has none of its own
	passwords string        // password file; "": clients need not log in
	files     []string      // configuration files
	rerouted  bool          // see reroute
	siege     *siege        // the attack in progress; nil: none
	broken    []string      // broken promises that a scenario itself has noticed
}

// startSystem starts the servers and the middleware. If it fails it ends everything that it has started.
func startSystem(ctx context.Context, programs Programs, o settings) (_ *system, err error) {
	s := &system{programs: programs, settings: o, began: time.Now(), events: &events{}}
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
		// Each server has its own address: an outgoing connection cannot take the port of a dead server.
		server := &server{name: fmt.Sprintf("server-%d", i+1), host: fmt.Sprintf("127.0.0.%d", i+2)}
		s.servers = append(s.servers, server)
		if o.spaced && i == victim {
			if server.space, err = newNamespace(); err != nil {
				return s, err
			}
			server.host = server.space.address
		}
		if err := s.launch(ctx, server); err != nil {
			return s, err
		}
		if o.proxies {
			if server.proxy, err = faulty.StartProxy(server.own()); err != nil {
				return s, err
			}
		}
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
	if o.follows {
		if err = s.launchFollower(ctx); err != nil {
			return s, err
		}
	}
	if o.memory > 0 {
		if err = s.limitMemory(o.memory); err != nil {
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

// writePasswords writes the password file into a directory of its own.
func writePasswords() (path string, err error) {
	dir, err := os.MkdirTemp("", "mcmw-faults-")
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, "passwords")
	return path, os.WriteFile(path, []byte(history.LoginUser+":"+history.LoginPassword+"\n"), 0o600)
}

// limitMemory makes a control group for mcmw.
func (s *system) limitMemory(memory int64) error {
	tree, err := cgroup.Find()
	if err != nil {
		return errNotHere{err}
	}
	if s.groups, err = tree.Own(); err != nil {
		return err
	}
	if s.group, err = s.groups.Make("mcmw", cgroup.Limits{Memory: memory}); err != nil {
		return errNotHere{err}
	}
	return nil
}

// publish updates the name server with the servers' addresses.
func (s *system) publish() {
	var targets []faulty.Target
	for i, server := range s.servers {
		host := fmt.Sprintf("server-%d.%s", i+1, zone)
		// mcmw uses this name.
		server.name = fmt.Sprintf("server-%d:%d", i+1, server.port)
		s.dns.SetAddrs(host, server.host)
		targets = append(targets, faulty.Target{Host: host, Port: server.port})
	}
	s.dns.SetSRV(service, targets...)
}

// move starts another server in place of the victim, at another address, and updates the name server. The previous
// server keeps running.
func (s *system) move(ctx context.Context) error {
	server := s.servers[victim]
	s.previous = server.proc
	server.host = fmt.Sprintf("127.0.0.%d", len(s.servers)+2)
	if err := s.launch(ctx, server); err != nil {
		return err
	}
	s.publish()
	return nil
}

// endPrevious ends the server at the victim's previous address.
func (s *system) endPrevious() {
	if s.previous != nil {
		s.previous.Stop(syscall.SIGKILL)
		s.previous = nil
	}
}

// launch starts a server, empty. From the second time on it keeps its address.
func (s *system) launch(ctx context.Context, server *server) error {
	command := func() *exec.Cmd {
		return memcached(s.programs.Memcached, server.host, server.port, "-t", "2", "-m", "64")
	}
	start := func() (err error) {
		server.proc, err = startOn(server.name, server.own(), command())
		return err
	}
	var err error
	switch {
	case server.space != nil:
		server.port = 11211 // nothing else runs in the namespace
		err = server.space.inner.Do(start)
	case server.port != 0:
		err = start()
	default:
		server.proc, err = launch(ctx, server.name, server.host, func(port int) *exec.Cmd {
			server.port = port
			return command()
		})
		return err
	}
	if err != nil {
		return err
	}
	return server.proc.awaitReady(ctx)
}

// stop ends everything. It returns an error if a middleware had ended before, or did not exit with code 0.
func (s *system) stop() (err error) {
	if s.siege != nil {
		s.siege.end()
	}
	for _, server := range s.all() {
		if server.proc != nil {
			server.proc.Stop(syscall.SIGKILL)
		}
	}
	s.endPrevious()
	for _, m := range append([]*daemon{s.mcmw}, s.others...) {
		if m == nil {
			continue
		}
		ended := m.Ended()
		m.Stop(syscall.SIGTERM)
		if code := m.ExitCode(); ended == nil && code != 0 {
			ended = fmt.Errorf("%s exited with code %d after SIGTERM", m.Name, code)
		}
		err = errors.Join(err, ended)
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
	err = errors.Join(err, s.stopFollower())
	if s.groups != nil {
		err = errors.Join(err, s.groups.Close())
	}
	return err
}

// empty removes all keys from the server.
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

// all returns the servers and the shadow, if there is one.
func (s *system) all() []*server {
	if s.shadow == nil {
		return s.servers
	}
	return append(slices.Clip(s.servers), s.shadow)
}

// awaitUp waits until all mcmw instances see all servers up.
func (s *system) awaitUp(ctx context.Context) error {
	var missing []string
	err := poll(ctx, func() (done bool, err error) {
		missing = nil
		for _, a := range s.admins {
			m, err := a.metrics(ctx)
			if err != nil {
				return false, errors.Join(s.mcmw.Ended(), err)
			}
			for _, server := range s.all() {
				if m[fmt.Sprintf("mcmw_server_state{server=%q,state=\"up\"}", server.name)] != 1 {
					missing = append(missing, server.name)
				}
			}
		}
		return len(missing) == 0, nil
	})
	if err == nil && len(missing) > 0 {
		err = fmt.Errorf("not up %v after the end of the fault: %s", history.AnswerWithin, strings.Join(missing, ", "))
	}
	return err
}
