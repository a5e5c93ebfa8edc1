package vm

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// namespace is a network namespace without a name. It ends when this descriptor is closed and the last program in it has ended.
type namespace struct{ file *os.File }

// newNamespace makes a namespace whose loopback is up.
func newNamespace() (n *namespace, err error) {
	err = onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("making a network namespace: %w", err)
		}
		file, err := threadNamespace()
		if err != nil {
			return err
		}
		n = &namespace{file}
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = n.configure(func(h *netlink.Handle) error { return up(h, "lo") })
	if err != nil {
		return nil, errors.Join(err, n.close())
	}
	return n, nil
}

// do calls f on a thread that is in the namespace: sockets that f opens and programs that it starts are in there, too.
func (n *namespace) do(f func() error) error {
	return onThread(func() error {
		if err := unix.Setns(int(n.file.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("entering a network namespace: %w", err)
		}
		return f()
	})
}

// congestion is how TCP finds its rate in machines: what Linux does unless told otherwise, hence what the reports' machines did. Another
// one that this machine may be set to, such as bbr, answers a narrow path in its own way.
const congestion = "cubic"

// congestionFile has the congestion control of the namespace of whoever reads it.
const congestionFile = "/proc/sys/net/ipv4/tcp_congestion_control"

// controlCongestion chooses it, if this machine allows that, and returns what is chosen.
func (n *namespace) controlCongestion() (chosen string, err error) {
	err = n.do(func() error {
		refused := os.WriteFile(congestionFile, []byte(congestion), 0o644)
		text, err := os.ReadFile(congestionFile)
		if err != nil {
			return errors.Join(refused, err)
		}
		chosen = strings.TrimSpace(string(text))
		return nil
	})
	return chosen, err
}

// configure calls f with a handle for the interfaces of the namespace.
func (n *namespace) configure(f func(h *netlink.Handle) error) error {
	h, err := netlink.NewHandleAt(netns.NsHandle(n.file.Fd()), unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("configuring a network namespace: %w", err)
	}
	defer h.Close()
	return f(h)
}

func (n *namespace) close() error { return n.file.Close() }

// onThread calls f on a thread of its own, whose network namespace f may change.
func onThread(f func() error) error {
	runtime.LockOSThread()
	own, err := threadNamespace()
	if err != nil {
		runtime.UnlockOSThread()
		return err
	}
	defer own.Close()
	err = f()
	if backErr := unix.Setns(int(own.Fd()), unix.CLONE_NEWNET); backErr != nil {
		// The thread stays locked and ends with its goroutine, so that nothing else runs in the wrong namespace.
		return errors.Join(err, fmt.Errorf("leaving a network namespace: %w", backErr))
	}
	runtime.UnlockOSThread()
	return err
}

// threadNamespace opens the network namespace of this thread.
func threadNamespace() (*os.File, error) { return os.Open("/proc/thread-self/ns/net") }

// up switches an interface on.
func up(h *netlink.Handle, name string) error {
	link, err := h.LinkByName(name)
	if err != nil {
		return fmt.Errorf("interface %s: %w", name, err)
	}
	if err := h.LinkSetUp(link); err != nil {
		return fmt.Errorf("switching interface %s on: %w", name, err)
	}
	return nil
}
