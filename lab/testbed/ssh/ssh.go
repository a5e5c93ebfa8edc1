package ssh

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"mcmw/lab/experiment"
	"mcmw/lab/testbed"
	"mcmw/lab/testbed/remote"
)

// maxClockError is how far the clocks of two hosts may be apart: half a window of the middlewares' statistics, which
// are matched with the load's results by time.
const maxClockError = 100 * time.Millisecond

// Programs are the paths of programs for hosts.Start, which translates them into the paths on each host.
var Programs = testbed.Programs{Memcached: "memcached", Mcmw: "mcmw", Mcmwlab: "mcmwlab"}

// host is a connected host of an inventory.
type host struct {
	*remote.Conn
	paths map[string]string // paths on the host, by Programs
}

// Open connects to all hosts of an inventory and copies to each the programs that it lacks. local are their paths on
// this machine; memcached is never copied. The programs of the hosts are Programs.
func Open(ctx context.Context, inventory *experiment.Inventory, local testbed.Programs) (t testbed.Hosts, err error) {
	if _, err := exec.LookPath("ssh"); err != nil {
		return t,
			fmt.Errorf("the testbed ssh needs an ssh client: %w; install it, on Debian: apt-get install openssh-client",
				err)
	}
	binaries, err := toCopy(inventory, local)
	if err != nil {
		return t, err
	}
	var all hosts
	t.Of, t.Close = map[testbed.Role][]testbed.Host{}, func() error { return all.close() }
	var connecting sync.WaitGroup
	problems := make([]error, len(inventory.Hosts))
	for i, described := range inventory.Hosts {
		h := new(host)
		all = append(all, h)
		for _, role := range described.Roles {
			t.Of[testbed.Role(role)] = append(t.Of[testbed.Role(role)], h)
		}
		t.Inventory = append(t.Inventory, fmt.Sprintf("%s (%s) at %s: %s", described.Name, described.SSH,
			described.Address, strings.Join(described.Roles, ", ")))
		connecting.Go(func() { problems[i] = h.connect(ctx, inventory.Config, described, binaries) })
	}
	connecting.Wait()
	if ctx.Err() != nil {
		problems = []error{context.Cause(ctx)}
	}
	err = errors.Join(problems...)
	if err == nil {
		err = all.checkClocks(ctx)
	}
	if err != nil {
		err = errors.Join(err, all.close())
	}
	return t, err
}

// toCopy reads the programs that at least one host needs a copy of.
func toCopy(inventory *experiment.Inventory, local testbed.Programs) (map[string]*binary, error) {
	binaries := map[string]*binary{}
	for name, file := range map[string]string{Programs.Mcmw: local.Mcmw, Programs.Mcmwlab: local.Mcmwlab} {
		if !slices.ContainsFunc(inventory.Hosts, func(h experiment.InventoryHost) bool {
			return h.Programs[name] == ""
		}) {
			continue
		}
		b, err := readBinary(name, file)
		if err != nil {
			return nil, err
		}
		binaries[name] = b
	}
	return binaries, nil
}

func (h *host) connect(ctx context.Context, config string, described experiment.InventoryHost,
	binaries map[string]*binary,
) (err error) {
	h.paths = map[string]string{Programs.Memcached: Programs.Memcached}
	maps.Copy(h.paths, described.Programs)
	h.Conn, err = remote.Connect(ctx, remote.Command{
		Kind: "host", Name: described.Name, Address: described.Address,
		Cmd: command(config, described),
		Prepare: func(in *bufio.Reader, out io.Writer) error {
			s, err := greet(in, out)
			if err != nil {
				return err
			}
			for _, name := range slices.Sorted(maps.Keys(binaries)) {
				if h.paths[name] == "" {
					if h.paths[name], err = s.copy(binaries[name]); err != nil {
						return err
					}
				}
			}
			return s.run(h.paths[Programs.Mcmwlab])
		},
		Explain: func(code int, stderr string) error { return explain(config, described, code, stderr) },
	})
	return err
}

type hosts []*host

// checkClocks returns an error if the clocks of two hosts differ too much.
func (all hosts) checkClocks(ctx context.Context) error {
	clocks := make([]clock, len(all))
	for i, h := range all {
		ahead, within, err := h.Clock(ctx)
		if err != nil {
			return err
		}
		clocks[i] = clock{h.Name(), ahead, within}
	}
	return agree(clocks)
}

// clock is how far a host's clock is ahead of this machine's, and the uncertainty of that.
type clock struct {
	host          string
	ahead, within time.Duration
}

// agree returns an error if two clocks certainly differ too much.
func agree(clocks []clock) error {
	for i, a := range clocks {
		for _, b := range clocks[:i] {
			if apart := (a.ahead - b.ahead).Abs() - a.within - b.within; apart > maxClockError {
				return fmt.Errorf("the clocks of the hosts %s and %s are %v apart; expected at most %v: synchronize "+
					"them, for instance with chrony",
					b.host, a.host, apart.Round(time.Millisecond), maxClockError)
			}
		}
	}
	return nil
}

// close ends the connections. Every host then kills its programs and removes the copies.
func (all hosts) close() error {
	var closing sync.WaitGroup
	for _, h := range all {
		if h.Conn != nil {
			closing.Go(h.Close)
		}
	}
	closing.Wait()
	return nil
}

func (h *host) Start(ctx context.Context, p testbed.Program) (testbed.Process, error) {
	name := p.Path
	if path, ok := h.paths[name]; ok {
		p.Path = path
	}
	started, err := h.Conn.Start(ctx, p)
	if err != nil && strings.Contains(err.Error(), "executable file not found") {
		err = fmt.Errorf("%w; install %s there, or set its path with the key programs of the inventory", err, name)
	}
	return started, err
}
