package node

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// File descriptors that a cluster's first process gets, from its parent.
const (
	lockFD     = 3 // the lock; held as long as the process exists
	goFD       = 4 // a byte says that the parent has recorded the id; the end says that the parent is gone
	progressFD = 5 // lines of progress; the last one is ready
	ready      = "ready"
)

// namespaces are the kinds of namespaces of a cluster.
const namespaces = syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS |
	syscall.CLONE_NEWIPC

// ErrRunning is returned by Up for a cluster that already exists.
var ErrRunning = errors.New("the cluster is running")

// Up brings the cluster up, and returns when its node and its DNS are ready. The cluster survives the end of this
// process, unless that is before it is ready. Lines of progress are passed to progress. If Up fails, only the logs of
// the cluster are left; the error has their end.
func (c *Cluster) Up(ctx context.Context, progress io.Writer) (err error) {
	if err := Possible(); err != nil {
		return err
	}
	if err := c.Build(ctx, progress); err != nil {
		return err
	}
	if err := os.MkdirAll(c.Logs(), 0o755); err != nil {
		return err
	}
	lock, err := c.lock()
	if err != nil {
		return err
	}
	defer lock.Close()
	// Remains of a cluster that was killed.
	if err := c.sweep(ctx); err != nil {
		return err
	}
	goRead, goWrite, err := os.Pipe()
	if err != nil {
		return err
	}
	defer goWrite.Close()
	progressRead, progressWrite, err := os.Pipe()
	if err != nil {
		goRead.Close()
		return err
	}
	defer progressRead.Close()
	log, err := os.Create(c.Logs() + "/node.log")
	if err != nil {
		return err
	}
	defer log.Close()
	// The program of this process, even if its file has been removed.
	cmd := exec.Command("/proc/self/exe", "init", "--name", c.name)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{lock, goRead, progressWrite}
	cmd.Env = append(os.Environ(), "PATH="+c.searchPath(), initVariable+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: namespaces, Setsid: true}
	err = cmd.Start()
	goRead.Close()
	progressWrite.Close()
	if err != nil {
		return fmt.Errorf("making namespaces for the cluster: %w", err)
	}
	defer func() {
		if err != nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			err = errors.Join(err, c.sweep(context.WithoutCancel(ctx)))
		}
	}()
	if err := c.note(cmd.Process.Pid); err != nil {
		return err
	}
	if _, err := goWrite.Write([]byte{1}); err != nil {
		return fmt.Errorf("starting the cluster: %w; see %s", err, log.Name())
	}
	defer context.AfterFunc(ctx, func() { progressRead.SetReadDeadline(time.Now()) })()
	lines := bufio.NewScanner(progressRead)
	for lines.Scan() {
		if lines.Text() == ready {
			return cmd.Process.Release()
		}
		fmt.Fprintln(progress, lines.Text())
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("the cluster did not come up:\n%s", c.endOfLogs())
}

// initVariable makes this program a cluster's first process.
const initVariable = "MCMW_CLUSTER_INIT"

// lock takes the cluster's lock.
func (c *Cluster) lock() (*os.File, error) {
	lock, err := os.OpenFile(c.lockFile(), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		lock.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w: %s", ErrRunning, c.name)
		}
		return nil, fmt.Errorf("locking %s: %w", c.lockFile(), err)
	}
	return lock, nil
}

// note records the cluster's first process: its id, and its start time, because ids are reused.
func (c *Cluster) note(pid int) error {
	began, err := beginning(pid)
	if err != nil {
		return err
	}
	return os.WriteFile(c.ownerFile(), []byte(fmt.Sprintf("%d %s\n", pid, began)), 0o644)
}

// beginning returns the start time of a process, in the kernel's clock ticks since boot: field 22 of proc_pid_stat(5).
func beginning(pid int) (string, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	// The second field, the command in parentheses, may contain anything.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 20 {
		return "", fmt.Errorf("/proc/%d/stat: expected at least 22 fields: %q", pid, stat)
	}
	return fields[19], nil
}

// Pid returns the id of the cluster's first process; 0 if there is no cluster.
func (c *Cluster) Pid() int {
	text, err := os.ReadFile(c.ownerFile())
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text))
	if len(fields) != 2 {
		return 0
	}
	pid, err := strconv.Atoi(fields[0])
	if err != nil {
		return 0
	}
	if began, err := beginning(pid); err != nil || began != fields[1] {
		return 0
	}
	return pid
}

// Command returns a command that runs a program inside the cluster: on its network, with its files in /run, its kubectl
// and helm, and all rights.
func (c *Cluster) Command(ctx context.Context, name string, args ...string) (*exec.Cmd, error) {
	pid := c.Pid()
	if pid == 0 {
		return nil, fmt.Errorf("there is no cluster %s: bring it up first (make cluster-up)", c.name)
	}
	enter := []string{"--target", strconv.Itoa(pid), "--mount", "--pid", "--net", "--uts", "--ipc", "--", "env"}
	if dir, err := os.Getwd(); err == nil {
		enter = append(enter, "--chdir="+dir)
	}
	enter = append(enter, "PATH="+c.searchPath(), "KUBECONFIG="+adminConfig, "HOME="+insideDir)
	cmd := exec.CommandContext(ctx, "nsenter", append(append(enter, c.Program(name)), args...)...)
	// The program, and not only nsenter, gets the signal to end.
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = 5 * time.Second
	return cmd, nil
}

// Down ends the cluster and removes everything of it. It is no error if there is none.
func (c *Cluster) Down(ctx context.Context) error {
	if err := possibleSystem(); err != nil {
		return err
	}
	if pid := c.Pid(); pid != 0 {
		if err := end(ctx, pid); err != nil {
			return err
		}
	}
	if _, err := os.Stat(c.Dir()); err == nil {
		lock, err := c.lock()
		if err != nil {
			return fmt.Errorf("somebody is bringing it up: %w", err)
		}
		defer lock.Close()
	}
	if err := c.sweep(ctx); err != nil {
		return err
	}
	return os.RemoveAll(c.Dir())
}

// endWithin bounds the time in which the kernel ends all processes of a cluster.
const endWithin = 30 * time.Second

// end kills a cluster's first process and waits for its end. By then the kernel has ended all other processes of the
// cluster.
func end(ctx context.Context, pid int) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, syscall.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("watching the cluster's first process, %d: %w", pid, err)
	}
	defer unix.Close(fd)
	if err := unix.PidfdSendSignal(fd, syscall.SIGKILL, nil, 0); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("ending the cluster's first process, %d: %w", pid, err)
	}
	poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for deadline := time.Now().Add(endWithin); time.Now().Before(deadline) && ctx.Err() == nil; {
		n, err := unix.Poll(poll, 100)
		if err != nil && !errors.Is(err, syscall.EINTR) {
			return fmt.Errorf("watching the cluster's first process, %d: %w", pid, err)
		}
		if n > 0 {
			return nil
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("the cluster's first process, %d, is there %v after it was killed", pid, endWithin)
}

// endOfLogs returns the last lines of the log of the cluster's first process.
func (c *Cluster) endOfLogs() string {
	text, err := os.ReadFile(c.Logs() + "/node.log")
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-20):], "\n") + "\n(more in " + c.Logs() + ")"
}
