// Package netspace makes network namespaces that leave nothing behind: they have no names and end with the last program
// in them.
package netspace

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Namespace is a network namespace without a name. It ends when this descriptor is closed and the last program in it
// has ended.
type Namespace struct{ handle netns.NsHandle }

// New makes a namespace whose loopback is up. It needs root.
func New() (n *Namespace, err error) {
	err = onThread(func() error {
		handle, err := netns.New()
		if err != nil {
			return fmt.Errorf("making a network namespace: %w", err)
		}
		n = &Namespace{handle}
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = n.Configure(func(h *netlink.Handle) error { return Up(h, "lo") })
	if err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

// Do calls f on a thread in the namespace. Sockets that f opens and programs that it starts are in the namespace.
func (n *Namespace) Do(f func() error) error {
	return onThread(func() error {
		if err := netns.Set(n.handle); err != nil {
			return fmt.Errorf("entering a network namespace: %w", err)
		}
		return f()
	})
}

// Configure calls f with a handle for the interfaces of the namespace.
func (n *Namespace) Configure(f func(h *netlink.Handle) error) error {
	h, err := netlink.NewHandleAt(n.handle, unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("configuring a network namespace: %w", err)
	}
	defer h.Close()
	return f(h)
}

// End returns this namespace as the place for one end of a virtual cable.
func (n *Namespace) End() netlink.NsFd { return netlink.NsFd(n.handle) }

// Close closes the descriptor.
func (n *Namespace) Close() error { return n.handle.Close() }

// onThread calls f on a thread whose network namespace f may change.
func onThread(f func() error) error {
	runtime.LockOSThread()
	own, err := netns.Get()
	if err != nil {
		runtime.UnlockOSThread()
		return err
	}
	defer own.Close()
	err = f()
	if backErr := netns.Set(own); backErr != nil {
		// The thread stays locked and ends with its goroutine, so that nothing else runs in the wrong namespace.
		return errors.Join(err, fmt.Errorf("leaving a network namespace: %w", backErr))
	}
	runtime.UnlockOSThread()
	return err
}

// Up switches an interface on.
func Up(h *netlink.Handle, name string) error {
	link, err := h.LinkByName(name)
	if err != nil {
		return fmt.Errorf("interface %s: %w", name, err)
	}
	if err := h.LinkSetUp(link); err != nil {
		return fmt.Errorf("switching interface %s on: %w", name, err)
	}
	return nil
}
