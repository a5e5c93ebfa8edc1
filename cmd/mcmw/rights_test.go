package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"mcmw/internal/mctest"
)

// dropRights makes the test binary give up root's rights, make every file system read-only, and execute itself again as
// mcmw.
const dropRights = "TEST_DROPS_RIGHTS"

const (
	// nobody is the user and group that mcmw then runs as.
	nobody = 65534
	// exitUnable says that this machine does not allow the test to drop the rights.
	exitUnable = 77
)

// withoutRights makes the process the user nobody, in its own mount namespace, in which it makes everything read-only.
func withoutRights() error {
	runtime.LockOSThread()
	binary, err := os.Open("/proc/self/exe") // nobody cannot read the directory of the binary
	if err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	readOnly := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	if err := unix.MountSetattr(unix.AT_FDCWD, "/", unix.AT_RECURSIVE, &readOnly); err != nil {
		return fmt.Errorf("make mounts read-only: %w", err)
	}
	if err := os.WriteFile(filepath.Join(os.TempDir(), "mcmw-rights"), nil, 0o600); !errors.Is(err, unix.EROFS) {
		return fmt.Errorf("expected a read-only file system: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	for _, drop := range []func() error{
		func() error { return syscall.Setgroups(nil) },
		func() error { return syscall.Setgid(nobody) },
		func() error { return syscall.Setuid(nobody) },
	} {
		if err := drop(); err != nil {
			return err
		}
	}
	if err := os.Unsetenv(dropRights); err != nil {
		return err
	}
	return unix.Exec(fmt.Sprintf("/proc/self/fd/%d", binary.Fd()), os.Args, os.Environ())
}

// rights returns a line of /proc/pid/status.
func rights(t *testing.T, pid int, name string) []string {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	for line := range strings.Lines(string(b)) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.Fields(value)
		}
	}
	require.FailNow(t, "no line "+name)
	return nil
}

func TestServeNeedsNoRightsAndWritesNoFile(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("dropping root's rights needs root")
	}
	server := mctest.StartMemcached(t)
	ca := mctest.NewCA(t)
	cert, key := ca.Issue()
	users := filepath.Join(filepath.Dir(cert), "users")
	require.NoError(t, os.WriteFile(users, []byte("app:password\n"), 0o600))
	for _, path := range []string{filepath.Dir(filepath.Dir(cert)), filepath.Dir(cert), cert, key, users} {
		require.NoError(t, os.Chmod(path, 0o755)) // for nobody to read
	}
	p := prepareProcess("serve", "-l", "127.0.0.1:0,notls:127.0.0.1:0", "-m", server.Addr(), "--admin", "127.0.0.1:0",
		"--tls-cert", cert, "--tls-key", key, "--auth-file", users)
	p.Env = append(p.Env, dropRights+"=1")
	p.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if err := p.Start(); errors.Is(err, syscall.EPERM) {
		t.Skipf("no mount namespace can be made here: %v", err)
	} else {
		require.NoError(t, err)
	}
	p.await(t)
	var ready entry
	require.Eventually(t, func() bool {
		var ok bool
		ready, ok = findEntry(p.stderr, "ready")
		return ok || len(p.done) > 0
	}, mctest.Patience, mctest.Tick)
	if len(p.done) > 0 {
		if err := p.exit(t); p.ProcessState.ExitCode() == exitUnable {
			t.Skipf("%v: %s", err, p.stderr)
		}
		require.FailNow(t, "it does not serve", p.stderr.String())
	}

	assert.Equal(t, []string{"65534", "65534", "65534", "65534"}, rights(t, p.Process.Pid, "Uid"))
	assert.Equal(t, []string{"65534", "65534", "65534", "65534"}, rights(t, p.Process.Pid, "Gid"))
	assert.Empty(t, rights(t, p.Process.Pid, "Groups"))
	for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapAmb"} {
		assert.Equal(t, []string{"0000000000000000"}, rights(t, p.Process.Pid, set), set)
	}
	assert.Equal(t, []string{"1"}, rights(t, p.Process.Pid, "NoNewPrivs"))

	for _, c := range []*mctest.Client{
		mctest.MustDialTLS(t, ready.Listen[0], ca.Client("", "")),
		mctest.MustDial(t, ready.Listen[1]),
	} {
		require.NoError(t, c.Authenticate("app", "password"))
		require.Equal(t, "STORED\r\n", c.MustDo(t, "set k 0 0 1\r\nv\r\n"))
		require.Equal(t, "VALUE k 0 1\r\nv\r\nEND\r\n", c.MustDo(t, "get k\r\n"))
	}
	require.Equal(t, http.StatusOK,
		status(t, "http://"+awaitEntry(t, p.stderr, "admin server listens").Address+"/metrics"))
	require.NoError(t, p.Process.Signal(syscall.SIGTERM))
	require.NoError(t, p.exit(t))
}
