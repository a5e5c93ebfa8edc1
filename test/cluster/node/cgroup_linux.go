package node

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// hierarchies returns the mount points of control groups; with version 1 there are several.
func hierarchies() (points []string, err error) {
	file, err := os.Open("/proc/self/mounts")
	if err != nil {
		return nil, err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if fields := strings.Fields(lines.Text()); len(fields) > 2 &&
			(fields[2] == "cgroup" || fields[2] == "cgroup2") {
			points = append(points, fields[1])
		}
	}
	return points, lines.Err()
}

// makeCgroups creates the control group of the cluster's pods in every hierarchy, because the kubelet requires it.
func (c *Cluster) makeCgroups() error {
	points, err := hierarchies()
	if err != nil {
		return err
	}
	if len(points) == 0 {
		return errors.New("no control groups are mounted (/proc/self/mounts), which containers need")
	}
	for _, point := range points {
		dir := filepath.Join(point, c.cgroup())
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if err := inherit(point, dir); err != nil {
			return err
		}
	}
	return nil
}

// inherit copies the processors and memory nodes of a version 1 cpuset: a new one has none, and accepts no process.
func inherit(parent, dir string) error {
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		value, err := os.ReadFile(filepath.Join(parent, file))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, file), value, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// sweep removes the control groups of the cluster, and ends processes that may still be in them.
func (c *Cluster) sweep(ctx context.Context) error {
	points, err := hierarchies()
	if err != nil {
		return err
	}
	for _, point := range points {
		dir := filepath.Join(point, c.cgroup())
		for deadline := time.Now().Add(endWithin); ; {
			err := removeCgroup(dir)
			if err == nil {
				break
			}
			// A group is busy until the kernel has removed its processes.
			if !errors.Is(err, syscall.EBUSY) || time.Now().After(deadline) {
				return fmt.Errorf("removing the control group %s: %w", dir, err)
			}
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
	return nil
}

// removeCgroup ends the processes of a control group and of those below it, and removes them.
func removeCgroup(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := removeCgroup(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	procs, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENODEV) {
		return err
	}
	for line := range strings.Lines(string(procs)) {
		if pid, err := strconv.Atoi(strings.TrimSpace(line)); err == nil && pid > 0 {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	if err := syscall.Rmdir(dir); err != nil && !errors.Is(err, syscall.ENOENT) {
		return err
	}
	return nil
}
