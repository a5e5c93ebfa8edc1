package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/test/cluster/node"
)

func TestAClusterLeavesNothingBehind(t *testing.T) {
	needCluster(t)
	const name = "lifecycle"
	c, err := node.New(name)
	require.NoError(t, err)
	up := func() *exec.Cmd { return exec.Command(program, "up", "--name", name, "--images=false") }
	for title, end := range map[string]func(t *testing.T){
		"when it is taken down": func(t *testing.T) {
			out, err := up().CombinedOutput()
			require.NoError(t, err, "%s", out)
			out, err = up().CombinedOutput()
			require.Error(t, err)
			require.Contains(t, string(out), "the cluster is running: "+name)
		},
		"when its first process is killed": func(t *testing.T) {
			out, err := up().CombinedOutput()
			require.NoError(t, err, "%s", out)
			require.NoError(t, syscall.Kill(c.Pid(), syscall.SIGKILL))
		},
		"when up is killed": func(t *testing.T) {
			cmd := up()
			stderr, err := cmd.StderrPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			lines := bufio.NewScanner(stderr)
			for lines.Scan() && !strings.HasPrefix(lines.Text(), "waiting for the node") {
			}
			require.NoError(t, cmd.Process.Kill())
			_ = cmd.Wait()
		},
		"when up is interrupted": func(t *testing.T) {
			cmd := up()
			stderr, err := cmd.StderrPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			lines := bufio.NewScanner(stderr)
			for lines.Scan() && !strings.HasPrefix(lines.Text(), "starting kube-controller-manager") {
			}
			require.NoError(t, cmd.Process.Signal(os.Interrupt))
			for lines.Scan() {
			}
			require.Error(t, cmd.Wait())
		},
	} {
		t.Run(title, func(t *testing.T) {
			require.NoError(t, c.Down(context.Background()), "of an earlier run")
			before := surroundings(t)
			end(t)
			require.NoError(t, c.Down(context.Background()))
			assert.Equal(t, before, surroundings(t))
			assert.NoDirExists(t, c.Dir())
			assert.Zero(t, c.Pid())
			require.NoError(t, c.Down(context.Background()), "taking down a missing cluster is no error")
		})
	}
}

// surroundings is the state of this machine that a cluster could change: mounts, interfaces, packet filter, control
// groups, and processes in namespaces other than those of the cluster that all tests share.
func surroundings(t *testing.T) map[string][]string {
	t.Helper()
	lines := func(text string) []string { return strings.Split(strings.TrimSpace(text), "\n") }
	run := func(name string, args ...string) []string {
		out, err := exec.Command(name, args...).CombinedOutput()
		require.NoError(t, err, "%s", out)
		return lines(string(out))
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	require.NoError(t, err)
	found := map[string][]string{
		"mounts":     lines(string(mounts)),
		"interfaces": run("ip", "-brief", "link"),
		"filter":     run("nft", "list", "ruleset"),
		"namespaces": run("ip", "netns", "list"),
	}
	for _, pattern := range []string{
		"/sys/fs/cgroup/mcmw-cluster-lifecycle",
		"/sys/fs/cgroup/*/mcmw-cluster-lifecycle",
	} {
		groups, err := filepath.Glob(pattern)
		require.NoError(t, err)
		found["control groups"] = append(found["control groups"], groups...)
	}
	shared := namespaceOf(cluster.Pid())
	own := namespaceOf(os.Getpid())
	entries, err := os.ReadDir("/proc")
	require.NoError(t, err)
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		// A pod of the shared cluster has a namespace below the cluster's; its processes are recognised by their
		// mounts.
		if ns := namespaceOf(pid); ns != "" && ns != own && ns != shared {
			command, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
			if err == nil && strings.Contains(string(command), "run-lifecycle") {
				found["processes"] = append(found["processes"], e.Name())
			}
		}
	}
	return found
}

// namespaceOf returns the process namespace of a process; "" if the process has ended.
func namespaceOf(pid int) string {
	link, _ := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid))
	return link
}
