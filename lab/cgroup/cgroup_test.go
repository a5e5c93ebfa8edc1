package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// fake returns a tree of plain directories. Removing a group also removes the files in it, which the kernel would do.
func fake(t *testing.T, mounts string) *Tree {
	t.Helper()
	tree, err := find(mounts)
	require.NoError(t, err)
	tree.rmdir = func(path string) error {
		entries, err := os.ReadDir(path)
		for _, entry := range entries {
			if entry.IsDir() {
				return errors.New("it has groups below it")
			}
		}
		return errors.Join(err, os.RemoveAll(path))
	}
	return tree
}

// unified returns the mount point of a hierarchy of version 2 with these controllers, and its line in mountinfo.
func unified(t *testing.T, has string) (root, line string) {
	t.Helper()
	root = t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(root, "cgroup.controllers"), []byte(has+"\n"), 0o644))
	return root, fmt.Sprintf("30 24 0:26 / %s rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n", root)
}

// mounted returns the mount point of a hierarchy of version 1, and its line in mountinfo.
func mounted(t *testing.T, controllers string) (root, line string) {
	t.Helper()
	root = t.TempDir()
	return root, fmt.Sprintf("31 24 0:27 / %s rw - cgroup cgroup rw,%s\n", root, controllers)
}

// content returns the text of a file.
func content(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(path...))
	require.NoError(t, err)
	return string(text)
}

func TestLimitsAreWrittenInTheFormOfVersion2(t *testing.T) {
	root, line := unified(t, "cpuset cpu io memory pids")
	owner, err := fake(t, "1 2 0:1 / / rw - ext4 /dev/sda rw\n"+line).Own()
	require.NoError(t, err)
	g, err := owner.Make("server-0", Limits{CPUs: 1.5, Memory: 1792 << 20})
	require.NoError(t, err)
	above := filepath.Join(root, owner.name)
	assert.Equal(t, "30000 20000", content(t, above, "server-0", "cpu.max"))
	assert.Equal(t, "1879048192", content(t, above, "server-0", "memory.max"))
	assert.Equal(t, "+cpu +memory", content(t, root, "cgroup.subtree_control"))
	assert.Equal(t, "+cpu +memory", content(t, above, "cgroup.subtree_control"))
	assert.Equal(t, []string{filepath.Join(above, "server-0", "cgroup.procs")}, g.ProcessFiles())

	_, err = owner.Make("server-0", Limits{})
	require.ErrorIs(t, err, fs.ErrExist)
	_, err = owner.Make("free", Limits{})
	require.NoError(t, err)
	assert.NoFileExists(t, filepath.Join(above, "free", "cpu.max"))
	require.NoError(t, owner.Close())
	assert.NoDirExists(t, above)
}

func TestLimitsAreWrittenInTheFormOfVersion1(t *testing.T) {
	cpu, cpuLine := mounted(t, "cpu,cpuacct")
	memory, memoryLine := mounted(t, "memory")
	_, other := unified(t, "")
	owner, err := fake(t, cpuLine+memoryLine+other).Own()
	require.NoError(t, err)
	g, err := owner.Make("a", Limits{CPUs: 0.01, Memory: 1 << 30})
	require.NoError(t, err)
	assert.Equal(t, "1000", content(t, cpu, owner.name, "a", "cpu.cfs_quota_us"),
		"the smallest that the kernel accepts")
	assert.Equal(t, "100000", content(t, cpu, owner.name, "a", "cpu.cfs_period_us"), "a hundred times the quota")
	assert.Equal(t, "1073741824", content(t, memory, owner.name, "a", "memory.limit_in_bytes"))
	assert.Len(t, g.ProcessFiles(), 2)
	require.NoError(t, owner.Close())
	assert.NoDirExists(t, filepath.Join(cpu, owner.name))
	assert.NoDirExists(t, filepath.Join(memory, owner.name))
}

func TestUsedTimeIsReadFromEitherVersion(t *testing.T) {
	_, cpuLine := mounted(t, "cpu")
	account, accountLine := mounted(t, "cpuacct")
	_, memoryLine := mounted(t, "memory")
	owner, err := fake(t, cpuLine+memoryLine+accountLine).Own()
	require.NoError(t, err)
	g, err := owner.Make("a", Limits{CPUs: 1})
	require.NoError(t, err)
	require.Len(t, g.Dirs(), 3)
	_, _, err = Used(g.Dirs())
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NoError(t, write(filepath.Join(account, owner.name, "a", "cpuacct.usage_user"), "1500\n"))
	require.NoError(t, write(filepath.Join(account, owner.name, "a", "cpuacct.usage_sys"), "500\n"))
	require.NoError(t, write(filepath.Join(account, owner.name, "a", "cpuacct.usage"), "4000\n"))
	user, system, err := Used(g.Dirs())
	require.NoError(t, err)
	assert.Equal(t, []time.Duration{3000, 1000}, []time.Duration{user, system}, "ticks only divide the exact sum")

	dir := t.TempDir()
	require.NoError(t, write(filepath.Join(dir, "cpu.stat"), "usage_usec 5\nuser_usec 3\nsystem_usec 2\n"))
	user, system, err = Used([]string{dir})
	require.NoError(t, err)
	assert.Equal(t, []time.Duration{3 * time.Microsecond, 2 * time.Microsecond}, []time.Duration{user, system})
	require.NoError(t, write(filepath.Join(dir, "cpu.stat"), "user_usec many\n"))
	_, _, err = Used([]string{dir})
	require.ErrorContains(t, err, `parsing "many"`)
}

func TestTheErrorNamesAMissingController(t *testing.T) {
	_, line := unified(t, "cpu pids")
	_, err := find(line + "not a line of mounts\n")
	require.ErrorIs(t, err, ErrNone)
	assert.ErrorContains(t, err, "no control groups with the controller memory are mounted")
}

// ended returns the name of the groups of a process that has ended.
func ended(t *testing.T) string {
	t.Helper()
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	name, err := ownName(cmd.Process.Pid)
	require.NoError(t, err)
	require.NoError(t, in.Close())
	require.NoError(t, cmd.Wait())
	return name
}

func TestGroupsOfOwnersThatHaveEndedAreRemovedAndNoOthers(t *testing.T) {
	root, line := unified(t, "cpu memory")
	tree := fake(t, line)
	owner, err := tree.Own()
	require.NoError(t, err)
	_, err = owner.Make("load-0", Limits{})
	require.NoError(t, err)
	dead := ended(t)
	namespace, err := pidNamespace()
	require.NoError(t, err)
	reused := fmt.Sprintf("mcmwlab-%d-1-%d", os.Getpid(), namespace) // of an earlier process with this one's id
	foreign := fmt.Sprintf("mcmwlab-%d-1-%d", os.Getpid(), namespace+1)
	for _, dir := range []string{
		dead + "/load-0", dead + "/server-0", reused, foreign, "system.slice/" + dead,
		"mcmwlab-x-1-1",
	} {
		require.NoError(t, os.MkdirAll(filepath.Join(root, dir), 0o755))
	}
	found, err := tree.Clean()
	require.NoError(t, err)
	require.Len(t, found, 2)
	owners := map[string]int{}
	for _, left := range found {
		owners[left.Owner] = len(left.Groups)
		assert.True(t, strings.HasPrefix(left.Owner, fmt.Sprintf("mcmwlab-%d-", left.PID)), left.Owner)
	}
	assert.Equal(t, map[string]int{dead: 3, reused: 1}, owners)
	assert.NoDirExists(t, filepath.Join(root, dead))
	assert.DirExists(t, filepath.Join(root, owner.name, "load-0"))
	assert.DirExists(t, filepath.Join(root, "system.slice", dead))
	assert.DirExists(t, filepath.Join(root, "mcmwlab-x-1-1"))
	assert.DirExists(t, filepath.Join(root, foreign), "whether its owner runs cannot be known here")
	found, err = tree.Clean()
	require.NoError(t, err)
	assert.Empty(t, found)
}

func TestAProcessOfAnotherPIDNamespaceIsLeftAlone(t *testing.T) {
	root, line := unified(t, "cpu memory")
	tree := fake(t, line)
	dir := filepath.Join(root, ended(t))
	require.NoError(t, os.Mkdir(dir, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte("0\n"), 0o644))
	_, err := tree.Clean()
	require.ErrorContains(t, err, "contains a process of another PID namespace")
	assert.DirExists(t, dir)
}

func TestTheKernelAcceptsTheLimitsAndLeftoversAreEnded(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("making control groups needs root")
	}
	tree, err := Find()
	if errors.Is(err, ErrNone) {
		t.Skip(err)
	}
	require.NoError(t, err)
	// The owner is a process that has ended.
	owner := &Owner{tree: tree, name: ended(t)}
	g, err := owner.Make("test", Limits{CPUs: 0.5, Memory: 64 << 20})
	require.NoError(t, err)
	cmd := exec.Command("sleep", "1000")
	require.NoError(t, cmd.Start())
	waited := make(chan error, 1) // how the process ended
	go func() { waited <- cmd.Wait() }()
	for _, file := range g.ProcessFiles() {
		require.NoError(t, write(file, strconv.Itoa(cmd.Process.Pid)))
	}
	found, err := tree.Clean()
	require.NoError(t, err)
	var mine *Left
	for i := range found {
		if found[i].Owner == owner.name {
			mine = &found[i]
		}
	}
	require.NotNil(t, mine)
	assert.Equal(t, []int{cmd.Process.Pid}, mine.Processes)
	assert.Error(t, <-waited)
	for _, dir := range g.dirs {
		assert.NoDirExists(t, filepath.Dir(dir))
	}
}
