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

// namespace is a network namespace with one address, reached over a pair of virtual interfaces. It needs root and the
// program ip.
type namespace struct {
	name    string // of the namespace, and of its end of the pair
	outside string // the other end
	address string
	shaped  bool // packets are dropped by the traffic control of the kernel, not by taking an interface down
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
	removeOrphans(ctx)
	n := int(namespaces.Add(1))
	// A network of four addresses out of those for tests of network devices (RFC 2544).
	net := fmt.Sprintf("198.18.%d.", os.Getpid()%250+1)
	low := n % 60 * 4
	inside, outside := net+strconv.Itoa(low+2), net+strconv.Itoa(low+1)
	name := fmt.Sprintf("%s%d-%d", namespacePrefix, os.Getpid(), n)
	s := &namespace{name: name, outside: name + "o", address: inside}
	if err := run(ctx, "ip netns add "+s.name); err != nil {
		return nil, errNoNamespace{err}
	}
	for _, command := range []string{
		"ip link add " + s.outside + " type veth peer name " + s.name + " netns " + s.name,
		"ip addr add " + outside + "/30 dev " + s.outside,
		"ip link set " + s.outside + " up",
		"ip -n " + s.name + " addr add " + inside + "/30 dev " + s.name,
		"ip -n " + s.name + " link set " + s.name + " up",
		"ip -n " + s.name + " link set lo up",
	} {
		if err := run(ctx, command); err != nil {
			return nil, errors.Join(errNoNamespace{err}, s.remove())
		}
	}
	return s, nil
}

// command returns cmd as it is started inside; it stays one process.
func (s *namespace) command(cmd *exec.Cmd) *exec.Cmd {
	return exec.Command("ip", append([]string{"netns", "exec", s.name, cmd.Path}, cmd.Args[1:]...)...)
}

// partition drops every packet in both directions, and sends nobody an error: by netem, or by a token bucket too small for
// any packet where the kernel has no netem, or by taking the interface down where it has neither.
func (s *namespace) partition(ctx context.Context) error {
	for _, qdisc := range []string{"netem loss 100%", "tbf rate 8bit burst 1 latency 1ms"} {
		if run(ctx, "tc qdisc add dev "+s.outside+" root "+qdisc) != nil {
			continue
		}
		if err := run(ctx, "tc -n "+s.name+" qdisc add dev "+s.name+" root "+qdisc); err != nil {
			return err
		}
		s.shaped = true
		return nil
	}
	return run(ctx, "ip -n "+s.name+" link set "+s.name+" down")
}

// heal ends the partition.
func (s *namespace) heal(ctx context.Context) error {
	if !s.shaped {
		return run(ctx, "ip -n "+s.name+" link set "+s.name+" up")
	}
	s.shaped = false
	return errors.Join(
		run(ctx, "tc qdisc del dev "+s.outside+" root"),
		run(ctx, "tc -n "+s.name+" qdisc del dev "+s.name+" root"))
}

// remove ends the namespace; its interfaces go with it.
func (s *namespace) remove() error {
	// Also after an interrupt.
	return errors.Join(
		ignoreMissing(run(context.Background(), "ip link del "+s.outside)),
		run(context.Background(), "ip netns del "+s.name))
}

// removeOrphans removes namespaces whose makers are gone.
func removeOrphans(ctx context.Context) {
	list, err := exec.CommandContext(ctx, "ip", "netns", "list").Output()
	if err != nil {
		return
	}
	for line := range strings.Lines(string(list)) {
		name, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		digits, _, ok := strings.Cut(strings.TrimPrefix(name, namespacePrefix), "-")
		pid, err := strconv.Atoi(digits)
		if !ok || err != nil || !strings.HasPrefix(name, namespacePrefix) || !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			continue
		}
		_ = (&namespace{name: name, outside: name + "o"}).remove()
	}
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

// ignoreMissing returns err, unless it says that a device isn't there.
func ignoreMissing(err error) error {
	if err != nil && strings.Contains(err.Error(), "Cannot find device") {
		return nil
	}
	return err
}
