package bench

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"mcmw/internal/lab/process"
)

// memcachedArgs are one thread, and memory for every key of every workload, and for values of 1 MiB.
var memcachedArgs = []string{"-t", "1", "-m", "512", "-c", "16384", "-I", "2m"}

// twemproxyCommand writes a configuration into dir and returns how nutcracker is started with it.
func twemproxyCommand(path, dir string, servers []string, port int) (*exec.Cmd, error) {
	var config bytes.Buffer
	fmt.Fprintf(&config, `bench:
  listen: 127.0.0.1:%d
  hash: fnv1a_64
  distribution: ketama
  auto_eject_hosts: false
  preconnect: true
  server_connections: 1
  servers:
`, port)
	for _, server := range servers {
		fmt.Fprintf(&config, "    - %s:1\n", server)
	}
	file := filepath.Join(dir, fmt.Sprintf("nutcracker-%d.yml", port))
	if err := os.WriteFile(file, config.Bytes(), 0o600); err != nil {
		return nil, fmt.Errorf("twemproxy's configuration: %w", err)
	}
	statsPort, err := process.FreePort(process.Loopback)
	if err != nil {
		return nil, err
	}
	return exec.Command(path, "-c", file, "-m", "16384", "-o", "/dev/stderr", "-a", "127.0.0.1", "-s", strconv.Itoa(statsPort)), nil
}

// mcmwCommand returns how mcmw is started.
func mcmwCommand(s system, w Workload, servers []string, port int) (*exec.Cmd, error) {
	args := []string{
		"serve", "--listen", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), "--servers", strings.Join(servers, ","),
		"--replicas", w.Replicas, "--sharded", "--admin", "",
	}
	args = append(append(args, w.args...), s.args...)
	return exec.Command(s.path, args...), nil
}
