package node

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// Init is a cluster's first process: it sets up the namespaces in which it was started, starts the supervisor, and
// waits for orphans, as the first process of a machine does. When it ends, the kernel ends all others.
func (c *Cluster) Init() error {
	if os.Getenv(initVariable) == "" || os.Getpid() != 1 {
		return errors.New("init must be started by up, in new namespaces")
	}
	_ = os.Unsetenv(initVariable)
	for _, fd := range []int{lockFD, goFD, progressFD} {
		syscall.CloseOnExec(fd)
	}
	// A cluster whose process is not recorded could not be taken down.
	word := make([]byte, 1)
	if _, err := os.NewFile(goFD, "go").Read(word); err != nil {
		return fmt.Errorf("waiting for up: %w", err)
	}
	// An interrupt at the terminal is for up, which decides whether to end the cluster.
	signal.Ignore(os.Interrupt, syscall.SIGHUP)
	if err := c.isolate(); err != nil {
		return err
	}
	progress := os.NewFile(progressFD, "progress")
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	supervisor, err := os.StartProcess("/proc/self/exe", []string{os.Args[0], "supervise", "--name", c.name},
		&os.ProcAttr{
			Env:   os.Environ(),
			Files: []*os.File{null, os.Stdout, os.Stderr, progress},
		})
	if err != nil {
		return err
	}
	_ = progress.Close() // its end tells up that the supervisor has ended
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return err
		case pid == supervisor.Pid:
			return fmt.Errorf("the supervisor has ended: exit code %d, signal %d", status.ExitStatus(), status.Signal())
		}
	}
}

// isolate gives the cluster its own file systems where its programs write, and a network.
func (c *Cluster) isolate() error {
	type mount struct {
		source, target, kind string
		flags                uintptr
		data                 string
	}
	mounts := []mount{
		// Mounts outside are visible inside, but not vice versa; pods see later mounts for them.
		{"none", "/", "", syscall.MS_REC | syscall.MS_SLAVE, ""},
		{"none", "/", "", syscall.MS_REC | syscall.MS_SHARED, ""},
		{"proc", "/proc", "proc", syscall.MS_NOSUID | syscall.MS_NODEV | syscall.MS_NOEXEC, ""},
	}
	for _, dir := range []string{"/run", "/var/lib", "/var/log"} {
		mounts = append(mounts, mount{"mcmw-cluster", dir, "tmpfs", 0, "mode=755"})
	}
	for _, m := range mounts {
		if err := syscall.Mount(m.source, m.target, m.kind, m.flags, m.data); err != nil {
			return fmt.Errorf("mounting %s: %w", m.target, err)
		}
	}
	if err := syscall.Sethostname([]byte(nodeName)); err != nil {
		return err
	}
	if err := c.makeCgroups(); err != nil {
		return err
	}
	return network()
}
