package faults

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

// namespace is a network namespace with one address, reached through a second one that forwards packets, or loses them
// and sends nobody an error. It needs root and the program ip.
type namespace struct {
	name    string // of the namespace, and of its interface
	router  string // of the one that forwards, and of its interface to the inner one
	outside string // interface on this side; that of the router has the same with an r behind it
	address string
	here    string // address of outside
}

// namespacePrefix begins the names of all namespaces and interfaces; the process id follows.
const namespacePrefix = "mcmwf"

// namespaces counts those this process has made.
var namespaces atomic.Int64

// errNoNamespace is why there can be none.
type errNoNamespace struct{ error }

// newNamespace makes a namespace, and removes those that processes which are gone have left.
func newNamespace(ctx context.Context) (*namespace, error) {
	if os.Geteuid() != 0 {
		return nil, errNoNamespace{errors.New("network namespaces need root")}
	}
	if _, err := exec.LookPath("ip"); err != nil {
		return nil, errNoNamespace{errors.New("network namespaces need the program ip, on Debian: apt-get install iproute2")}
	}
	if _, err := RemoveOrphans(ctx); err != nil {
		return nil, errNoNamespace{err}
	}
	n := int(namespaces.Add(1))
	// Two networks of four addresses out of those for tests of network devices (RFC 2544).
	network := fmt.Sprintf("198.18.%d.", os.Getpid()%250+1)
	address := func(i int) string { return network + strconv.Itoa(n%30*8+i) }
	name := fmt.Sprintf("%s%d-%d", namespacePrefix, os.Getpid(), n)
	s := &namespace{name: name + "s", router: name + "r", outside: name + "o", address: address(6), here: address(1)}
	for _, command := range []string{
		"ip netns add " + s.name,
		"ip netns add " + s.router,
		"ip link add " + s.outside + " type veth peer name " + s.outside + " netns " + s.router,
		"ip addr add " + s.here + "/30 dev " + s.outside,
		"ip link set " + s.outside + " up",
		"ip -n " + s.router + " addr add " + address(2) + "/30 dev " + s.outside,
		"ip -n " + s.router + " link set " + s.outside + " up",
		"ip link add " + s.router + " netns " + s.router + " type veth peer name " + s.name + " netns " + s.name,
		"ip -n " + s.router + " addr add " + address(5) + "/30 dev " + s.router,
		"ip -n " + s.router + " link set " + s.router + " up",
		"ip -n " + s.name + " addr add " + s.address + "/30 dev " + s.name,
		"ip -n " + s.name + " link set " + s.name + " up",
		"ip -n " + s.name + " route add default via " + address(5),
		"ip route add " + s.address + "/32 via " + address(2),
	} {
		if err := run(ctx, command); err != nil {
			return nil, errNoNamespace{errors.Join(err, s.remove())}
		}
	}
	forward := exec.CommandContext(ctx, "ip", "netns", "exec", s.router, "tee", "/proc/sys/net/ipv4/ip_forward")
	forward.Stdin = strings.NewReader("1")
	if err := forward.Run(); err != nil {
		return nil, errNoNamespace{errors.Join(fmt.Errorf("%s: %w", forward, err), s.remove())}
	}
	return s, nil
}

// command returns cmd as it is started inside; it stays one process.
func (s *namespace) command(cmd *exec.Cmd) *exec.Cmd {
	return exec.Command("ip", append([]string{"netns", "exec", s.name, cmd.Path}, cmd.Args[1:]...)...)
}

// partition loses every packet in both directions, silently.
func (s *namespace) partition(ctx context.Context) error { return s.blackholes(ctx, "add") }

// heal ends the partition.
func (s *namespace) heal(ctx context.Context) error { return s.blackholes(ctx, "del") }

func (s *namespace) blackholes(ctx context.Context, verb string) error {
	return errors.Join(
		run(ctx, "ip -n "+s.router+" route "+verb+" blackhole "+s.address+"/32"),
		run(ctx, "ip -n "+s.router+" route "+verb+" blackhole "+s.here+"/32"))
}

// remove ends the namespaces; their interfaces and routes go with them.
func (s *namespace) remove() error {
	// Also after an interrupt.
	ctx := context.Background()
	return errors.Join(
		ignoreMissing(run(ctx, "ip link del "+s.outside)),
		ignoreMissing(run(ctx, "ip netns del "+s.router)),
		ignoreMissing(run(ctx, "ip netns del "+s.name)))
}

// RemoveOrphans removes namespaces whose makers are gone, and returns their names. Without the program ip there are none.
func RemoveOrphans(ctx context.Context) (removed []string, err error) {
	if _, err := exec.LookPath("ip"); err != nil {
		return nil, nil
	}
	list, err := exec.CommandContext(ctx, "ip", "netns", "list").Output()
	if err != nil {
		return nil, fmt.Errorf("ip netns list: %w", err)
	}
	for line := range strings.Lines(string(list)) {
		name, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		digits, _, ok := strings.Cut(strings.TrimPrefix(name, namespacePrefix), "-")
		pid, convErr := strconv.Atoi(digits)
		if !ok || convErr != nil || !strings.HasPrefix(name, namespacePrefix) || !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			continue
		}
		if delErr := run(ctx, "ip netns del "+name); delErr != nil {
			err = errors.Join(err, ignoreMissing(delErr))
			continue
		}
		removed = append(removed, name)
	}
	return removed, err
}

// run runs a command line without quotes.
func run(ctx context.Context, line string) error {
	words := strings.Fields(line)
	out, err := exec.CommandContext(ctx, words[0], words[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", line, err, bytes.TrimSpace(out))
	}
	return nil
}

// ignoreMissing returns err, unless it says that what is to be removed isn't there.
func ignoreMissing(err error) error {
	if err != nil && (strings.Contains(err.Error(), "Cannot find device") || strings.Contains(err.Error(), "No such file")) {
		return nil
	}
	return err
}
