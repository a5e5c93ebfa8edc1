package mctest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// SSHD is a real SSH server on loopback with new keys. It ends with the test that started it.
type SSHD struct {
	// Config is the path of a client configuration with the server as the host "lab".
	Config string
	// KnownHosts, Identity are the client's files.
	KnownHosts, Identity string
	// Temp is the sessions' directory for temporary files.
	Temp string
	// Port is the server's port on 127.0.0.1.
	Port int
}

// separation is a directory that sshd requires when it runs as root.
const separation = "/run/sshd"

// StartSSHD starts an SSH server that accepts the test's user. Its sessions have the environment variables in env. The
// test fails if there is no sshd.
func StartSSHD(t testing.TB, env ...string) *SSHD {
	t.Helper()
	program, err := exec.LookPath("sshd")
	if err != nil {
		program = "/usr/sbin/sshd" // sshd is not in most PATHs and requires an absolute path
	}
	_, err = os.Stat(program)
	require.NoError(t, err, "run .ci/deps, or on Debian: apt-get install openssh-server")
	if os.Geteuid() == 0 {
		if err := os.Mkdir(separation, 0o755); err == nil {
			t.Cleanup(func() { os.Remove(separation) })
		}
	}
	dir := t.TempDir()
	s := &SSHD{
		Config: filepath.Join(dir, "config"), KnownHosts: filepath.Join(dir, "known_hosts"),
		Identity: filepath.Join(dir, "id"), Temp: filepath.Join(dir, "temp"),
	}
	require.NoError(t, os.Mkdir(s.Temp, 0o755))
	for _, key := range []string{"host", "id"} {
		out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f",
			filepath.Join(dir, key)).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	hostKey, err := os.ReadFile(filepath.Join(dir, "host.pub"))
	require.NoError(t, err)
	me, err := user.Current()
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s.Port = listener.Addr().(*net.TCPAddr).Port
	require.NoError(t, listener.Close())
	write := func(path string, lines ...string) {
		require.NoError(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	}
	write(s.KnownHosts, fmt.Sprintf("[127.0.0.1]:%d %s", s.Port, hostKey))
	write(s.Config, "Host lab", "HostName 127.0.0.1", fmt.Sprintf("Port %d", s.Port), "User "+me.Username,
		"IdentityFile "+s.Identity, "IdentitiesOnly yes",
		"UserKnownHostsFile "+s.KnownHosts, "GlobalKnownHostsFile none", "StrictHostKeyChecking yes")
	config := filepath.Join(dir, "sshd_config")
	write(config, fmt.Sprintf("ListenAddress 127.0.0.1:%d", s.Port), "HostKey "+filepath.Join(dir, "host"),
		"AuthorizedKeysFile "+s.Identity+".pub",
		"PidFile none", "StrictModes no", "UsePAM no", "PasswordAuthentication no", "KbdInteractiveAuthentication no",
		"PermitRootLogin prohibit-password",
		"MaxStartups 100", "SetEnv "+strings.Join(append(env, "TMPDIR="+s.Temp), " "))
	cmd := exec.Command(program, "-D", "-e", "-f", config)
	log := new(Output)
	cmd.Stderr = log
	require.NoError(t, cmd.Start())
	done := make(chan struct{}) // closed when sshd has ended
	go func() {
		defer close(done)
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-done
	})
	select {
	case <-log.Written("Server listening on"):
	case <-done:
		require.FailNow(t, "sshd has ended", "%s", log)
	case <-time.After(Patience):
		require.FailNow(t, "sshd doesn't listen", "%s", log)
	}
	return s
}
