package vm

import (
	"errors"
	"os"
	"strings"

	"mcmw/internal/lab/netspace"
)

// congestion is how TCP finds its rate in machines: what Linux does unless told otherwise, hence what the reports' machines did. Another
// one that this machine may be set to, such as bbr, answers a narrow path in its own way.
const congestion = "cubic"

// congestionFile has the congestion control of the reader's network namespace.
const congestionFile = "/proc/sys/net/ipv4/tcp_congestion_control"

// controlCongestion chooses it, if this machine allows that, and returns what is chosen.
func controlCongestion(n *netspace.Namespace) (chosen string, err error) {
	err = n.Do(func() error {
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
