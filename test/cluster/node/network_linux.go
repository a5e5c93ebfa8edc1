package node

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// network gives the node its address. There is no route to the outside: everything that pods need is here.
func network() error {
	for _, args := range [][]string{
		{"link", "set", "lo", "up"},
		// A pair of interfaces with an unused end serves as a network that is up.
		{"link", "add", "node0", "type", "veth", "peer", "name", "nowhere"},
		{"link", "set", "nowhere", "up"},
		{"link", "set", "node0", "up"},
		{"address", "add", nodeAddress + "/24", "dev", "node0"},
		// Addresses of services need a route before they are translated to those of pods.
		{"route", "add", "default", "dev", "node0", "src", nodeAddress},
	} {
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, out)
		}
	}
	for name, value := range map[string]string{
		"net/ipv4/ip_forward": "1",
		// Packets from pods to services on the same bridge must pass the rules for services.
		"net/bridge/bridge-nf-call-iptables": "1",
	} {
		if err := os.WriteFile("/proc/sys/"+name, []byte(value), 0o644); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	return nil
}
