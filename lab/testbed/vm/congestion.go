package vm

import (
	"errors"
	"os"
	"strings"

	"mcmw/lab/netspace"
)

// congestion is the congestion control of TCP in machines: Linux's default, which the reports' machines used. Another
// one that this machine may be set to, such as bbr, reacts differently to a slow path.
const congestion = "cubic"

// congestionFile sets the congestion control of the caller's network namespace.
const congestionFile = "/proc/sys/net/ipv4/tcp_congestion_control"

// controlCongestion sets congestion in a namespace, if this machine allows that, and returns the setting in force.
func controlCongestion(n *netspace.Namespace) (current string, err error) {
	err = n.Do(func() error {
		refused := os.WriteFile(congestionFile, []byte(congestion), 0o644)
		text, err := os.ReadFile(congestionFile)
		if err != nil {
			return errors.Join(refused, err)
		}
		current = strings.TrimSpace(string(text))
		return nil
	})
	return current, err
}
