package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"mcmw/lab/netspace"
)

// namespace is a network namespace with one address. It is reached through a second one, a router, which forwards
// packets or drops them silently. It needs root.
type namespace struct {
	inner, router *netspace.Namespace
	outside       string // interface in this process's namespace
	address       string // address in inner
	here          string // address of outside
}

// namespaces counts the namespaces that this process has made.
var namespaces atomic.Int64

// newNamespace makes a namespace.
func newNamespace() (*namespace, error) {
	if os.Geteuid() != 0 {
		return nil, errNotHere{errors.New("network namespaces need root")}
	}
	n := namespaces.Add(1)
	// Two networks of four addresses each, from the range for tests of network devices (RFC 2544).
	address := func(i int64) string { return fmt.Sprintf("198.18.%d.%d", os.Getpid()%250+1, n%30*8+i) }
	s := &namespace{outside: fmt.Sprintf("mcmwf%d-%d", os.Getpid(), n), address: address(6), here: address(1)}
	if err := s.connect(address(2), address(5)); err != nil {
		return nil, errNotHere{errors.Join(err, s.remove())}
	}
	return s, nil
}

// connect makes both namespaces and the virtual cables between them. The cables' ends at the router have the addresses
// near and far.
func (s *namespace) connect(near, far string) (err error) {
	if s.router, err = netspace.New(); err != nil {
		return err
	}
	if s.inner, err = netspace.New(); err != nil {
		return err
	}
	here, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer here.Close()
	if err := here.LinkAdd(&netlink.Veth{
		LinkAttrs: netlink.LinkAttrs{Name: s.outside}, PeerName: "near",
		PeerNamespace: s.router.End(),
	}); err != nil {
		return fmt.Errorf("making a virtual cable to a network namespace: %w", err)
	}
	if err := assign(here, s.outside, s.here); err != nil {
		return err
	}
	if err := s.router.Do(func() error {
		return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644)
	}); err != nil {
		return err
	}
	err = s.router.Configure(func(h *netlink.Handle) error {
		cable := &netlink.Veth{
			LinkAttrs: netlink.LinkAttrs{Name: "far"}, PeerName: "card",
			PeerNamespace: s.inner.End(),
		}
		return errors.Join(h.LinkAdd(cable), assign(h, "near", near), assign(h, "far", far))
	})
	if err != nil {
		return err
	}
	err = s.inner.Configure(func(h *netlink.Handle) error {
		return errors.Join(assign(h, "card", s.address), h.RouteAdd(&netlink.Route{Gw: net.ParseIP(far)}))
	})
	return errors.Join(err, here.RouteAdd(&netlink.Route{Dst: host(s.address), Gw: net.ParseIP(near)}))
}

// assign gives an interface an address in a network of four addresses, and switches it on.
func assign(h *netlink.Handle, name, address string) error {
	link, err := h.LinkByName(name)
	if err != nil {
		return fmt.Errorf("interface %s: %w", name, err)
	}
	if err := h.AddrAdd(link, &netlink.Addr{IPNet: &net.IPNet{
		IP:   net.ParseIP(address),
		Mask: net.CIDRMask(30, 32),
	}}); err != nil {
		return fmt.Errorf("giving interface %s the address %s: %w", name, address, err)
	}
	return netspace.Up(h, name)
}

// host returns the network of one address.
func host(address string) *net.IPNet {
	return &net.IPNet{IP: net.ParseIP(address), Mask: net.CIDRMask(32, 32)}
}

// partition drops every packet in both directions, silently.
func (s *namespace) partition() error { return s.blackholes((*netlink.Handle).RouteAdd) }

// heal ends the partition.
func (s *namespace) heal() error { return s.blackholes((*netlink.Handle).RouteDel) }

// blackholes applies change to the routes at the router that drop packets.
func (s *namespace) blackholes(change func(*netlink.Handle, *netlink.Route) error) error {
	return s.router.Configure(func(h *netlink.Handle) (err error) {
		for _, address := range []string{s.address, s.here} {
			err = errors.Join(err, change(h, &netlink.Route{Dst: host(address), Type: unix.RTN_BLACKHOLE}))
		}
		return err
	})
}

// remove removes the namespaces and with them their interfaces and routes; the interface on this side is removed at
// once. If this process is killed, the kernel does the same.
func (s *namespace) remove() (err error) {
	if link, missing := netlink.LinkByName(s.outside); missing == nil {
		err = netlink.LinkDel(link)
	}
	for _, n := range []*netspace.Namespace{s.inner, s.router} {
		if n != nil {
			err = errors.Join(err, n.Close())
		}
	}
	return err
}
