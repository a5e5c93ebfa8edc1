// Package cgroup limits the processor time and the memory of groups of processes, by the kernel's control groups of
// version 1, of version 2, or of both side by side.
//
//	Tree   where the controllers are on this machine
//	Owner  a process that makes groups; their names contain its id, so that the groups of a killed owner are recognized
//	Group  processes with common limits
//	Clean  removes the groups of owners that have ended
package cgroup

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// period is the period of processor quotas: a group that has used its quota waits for the next period. It is long
	// compared to the scheduler's slices (5 ms) and short compared to the times that are measured.
	period = 20 * time.Millisecond
	// minQuota is the smallest quota that the kernel accepts, maxPeriod the longest period. A limit below minQuota per
	// period gets a longer period.
	minQuota  = time.Millisecond
	maxPeriod = time.Second
	// emptyTimeout bounds how long killed processes of a group may take to end.
	emptyTimeout = 5 * time.Second
)

// ErrNone means that this machine lacks a controller that is needed.
var ErrNone = errors.New("no control groups")

// controllers are the needed controllers, by the kernel's names.
var controllers = []string{"cpu", "memory"}

// account is the controller of version 1 that counts processor time. In version 2 every group counts it.
const account = "cpuacct"

type hierarchy struct {
	root        string // mount point
	unified     bool   // version 2
	controllers []string
}

// Tree is where the controllers are.
type Tree struct {
	hierarchies []hierarchy
	// rmdir removes a group that has neither groups below it nor processes.
	rmdir func(path string) error
}

// Find returns the tree of this machine. If the machine cannot limit processor time and memory, the error is ErrNone
// and says what is missing.
func Find() (*Tree, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	return find(string(mounts))
}

// find parses the text of /proc/self/mountinfo.
func find(mounts string) (*Tree, error) {
	t := &Tree{rmdir: unix.Rmdir}
	var missing []string
	for _, controller := range controllers {
		root, unified := locate(mounts, controller)
		if root == "" {
			missing = append(missing, controller)
			continue
		}
		at := slices.IndexFunc(t.hierarchies, func(h hierarchy) bool { return h.root == root })
		if at < 0 {
			at = len(t.hierarchies)
			t.hierarchies = append(t.hierarchies, hierarchy{root: root, unified: unified})
		}
		t.hierarchies[at].controllers = append(t.hierarchies[at].controllers, controller)
	}
	if root, unified := locate(mounts, account); root != "" && !unified &&
		!slices.ContainsFunc(t.hierarchies, func(h hierarchy) bool { return h.root == root }) {
		t.hierarchies = append(t.hierarchies, hierarchy{root: root, controllers: []string{account}})
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("%w with the controller %s are mounted; expected them under /sys/fs/cgroup", ErrNone,
			strings.Join(missing, " and "))
	}
	return t, nil
}

// locate returns the mount point of a controller's hierarchy; "" if there is none.
func locate(mounts, controller string) (root string, unified bool) {
	for line := range strings.Lines(mounts) {
		// 36 35 98:0 /root /mount/point options ... - type source options (proc_pid_mountinfo(5))
		before, after, ok := strings.Cut(strings.TrimSpace(line), " - ")
		mount, kind := strings.Fields(before), strings.Fields(after)
		if !ok || len(mount) < 5 || len(kind) < 3 {
			continue
		}
		switch kind[0] {
		case "cgroup":
			if slices.Contains(strings.Split(kind[2], ","), controller) {
				return mount[4], false
			}
		case "cgroup2":
			has, err := os.ReadFile(filepath.Join(mount[4], "cgroup.controllers"))
			if err == nil && slices.Contains(strings.Fields(string(has)), controller) {
				root, unified = mount[4], true
			}
		}
	}
	return root, unified
}

// Limits are limits on what the processes of a group use together.
type Limits struct {
	CPUs   float64 // seconds of processor time per second; 0: no limit
	Memory int64   // bytes; 0: no limit
}

// Group is a group of processes with common limits.
type Group struct {
	dirs []string // one in each hierarchy
}

// Owner is a process that makes groups.
type Owner struct {
	tree *Tree
	name string
}

// Own returns this process as an owner.
func (t *Tree) Own() (*Owner, error) {
	name, err := ownName(os.Getpid())
	if err != nil {
		return nil, err
	}
	return &Owner{t, name}, nil
}

// Make makes a group. If it fails, Close removes what is left of the group.
func (o *Owner) Make(name string, l Limits) (*Group, error) {
	g := &Group{}
	for _, h := range o.tree.hierarchies {
		dir, err := h.make(o.name, name, l)
		if err != nil {
			return nil, fmt.Errorf("making the control group %s: %w", name, err)
		}
		g.dirs = append(g.dirs, dir)
	}
	return g, nil
}

// make makes the group in a hierarchy.
func (h hierarchy) make(owner, name string, l Limits) (dir string, err error) {
	above := filepath.Join(h.root, owner)
	if err := h.delegate(h.root); err != nil {
		return "", err
	}
	if err := os.Mkdir(above, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	if err := h.delegate(above); err != nil {
		return "", err
	}
	dir = filepath.Join(above, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", err
	}
	for _, limit := range h.files(l) {
		err = errors.Join(err, write(filepath.Join(dir, limit.file), limit.value))
	}
	return dir, err
}

// delegate enables the controllers for the groups below dir. In version 1 they always are.
func (h hierarchy) delegate(dir string) error {
	if !h.unified {
		return nil
	}
	err := write(filepath.Join(dir, "cgroup.subtree_control"), "+"+strings.Join(h.controllers, " +"))
	if errors.Is(err, unix.EBUSY) {
		err = fmt.Errorf("%w: %s contains processes; in a container, mount the host's control groups", err, dir)
	}
	return err
}

type setting struct{ file, value string }

// files returns the files and values for limits, in the order in which they must be written.
func (h hierarchy) files(l Limits) (settings []setting) {
	if slices.Contains(h.controllers, "cpu") && l.CPUs > 0 {
		per, quota := period, time.Duration(math.Round(l.CPUs*float64(period)))
		if quota < minQuota {
			per, quota = min(time.Duration(float64(minQuota)/l.CPUs), maxPeriod), minQuota
		}
		if h.unified {
			settings = append(settings, setting{
				"cpu.max",
				fmt.Sprintf("%d %d", quota.Microseconds(), per.Microseconds()),
			})
		} else {
			settings = append(settings, setting{"cpu.cfs_period_us", fmt.Sprint(per.Microseconds())},
				setting{"cpu.cfs_quota_us", fmt.Sprint(quota.Microseconds())})
		}
	}
	if slices.Contains(h.controllers, "memory") && l.Memory > 0 {
		file := "memory.limit_in_bytes"
		if h.unified {
			file = "memory.max"
		}
		settings = append(settings, setting{file, fmt.Sprint(l.Memory)})
	}
	return settings
}

// enter is a script that joins control groups and then becomes a program. Its arguments are files to write its process
// id to, --, and the program with its arguments.
const enter = `while [ "$1" != -- ]; do echo $$ >"$1" || exit; shift; done; shift; exec "$@"`

// Command returns the command of a program that has the limits of the group from its first instruction.
func (g *Group) Command(path string, args ...string) *exec.Cmd {
	return exec.Command("/bin/sh",
		slices.Concat([]string{"-c", enter, "sh"}, g.ProcessFiles(), []string{"--", path}, args)...)
}

// ProcessFiles returns the files to which a process writes its id to join the group. Its children are then started in
// the group.
func (g *Group) ProcessFiles() (files []string) {
	for _, dir := range g.dirs {
		files = append(files, processFile(dir))
	}
	return files
}

// Used returns the user and system time that the processes of a group have used. dirs are the directories of the group;
// one of them counts it.
func Used(dirs []string) (user, system time.Duration, err error) {
	for _, dir := range dirs {
		if user, system, err = used(dir); !errors.Is(err, fs.ErrNotExist) {
			return user, system, err
		}
	}
	return 0, 0, fmt.Errorf("reading the processor time of the control group %s: %w", strings.Join(dirs, ", "),
		cmp.Or(err, fs.ErrNotExist))
}

// used reads the times that one directory counts. If it counts none, the error is fs.ErrNotExist.
func used(dir string) (user, system time.Duration, err error) {
	if user, err = readTime(dir, "cpuacct.usage_user", "", time.Nanosecond); err == nil {
		if system, err = readTime(dir, "cpuacct.usage_sys", "", time.Nanosecond); err != nil {
			return 0, 0, err
		}
		// These two are sampled by the timer's ticks, which miss the short bursts of a group with a quota. Their sum is
		// counted exactly.
		all, err := readTime(dir, "cpuacct.usage", "", time.Nanosecond)
		if ticks := user + system; ticks > 0 {
			user = time.Duration(float64(all) * float64(user) / float64(ticks))
		}
		return user, max(all-user, 0), err
	}
	if user, err = readTime(dir, "cpu.stat", "user_usec", time.Microsecond); err == nil {
		system, err = readTime(dir, "cpu.stat", "system_usec", time.Microsecond)
	}
	return user, system, err
}

// readTime returns the number after a name in a file, or the first number if name is ""; fs.ErrNotExist if there is
// none.
func readTime(dir, file, name string, unit time.Duration) (time.Duration, error) {
	text, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(rest), 10, 64)
			if err != nil {
				return 0, fmt.Errorf("%s: %w", filepath.Join(dir, file), err)
			}
			return time.Duration(n) * unit, nil
		}
	}
	return 0, fs.ErrNotExist
}

// Dirs returns the directories of the group.
func (g *Group) Dirs() []string { return slices.Clone(g.dirs) }

func processFile(dir string) string { return filepath.Join(dir, "cgroup.procs") }

// Close removes the owner's groups, and ends processes that still run in them.
func (o *Owner) Close() (err error) {
	for _, h := range o.tree.hierarchies {
		err = errors.Join(err, o.tree.clean(filepath.Join(h.root, o.name), &Left{}))
	}
	return err
}

// remove removes one directory. It is no error if it does not exist.
func (t *Tree) remove(dir string) error {
	for deadline := time.Now().Add(emptyTimeout); ; time.Sleep(time.Millisecond) {
		err := t.rmdir(dir)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		// A process stays in its group for a moment after it has ended.
		if !errors.Is(err, unix.EBUSY) || time.Now().After(deadline) {
			return fmt.Errorf("removing the control group %s: %w", dir, err)
		}
	}
}

// write writes a value to a file of the kernel.
func write(path, value string) error {
	if err := os.WriteFile(path, []byte(value), 0o644); err != nil {
		return fmt.Errorf("writing %q: %w", value, err)
	}
	return nil
}
