// Package cgroup bounds the processor time and the memory of groups of processes, by the kernel's control groups of version 1, of
// version 2, or of both side by side.
//
//	Tree   where the controllers are on this machine
//	Owner  a process that makes groups; they are named after it, so that those left by a killed one are recognized
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
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// period is that of processor quotas: a group that has used its share waits for the next. It is long against the slices of
	// the scheduler (5 ms), short against the times that are measured.
	period = 20 * time.Millisecond
	// minQuota is the least that the kernel takes, maxPeriod the longest period. What less than the quota would do for has a longer one.
	minQuota  = time.Millisecond
	maxPeriod = time.Second
	// emptyTimeout bounds how long the processes of a group may take to end that have been killed.
	emptyTimeout = 5 * time.Second
)

// ErrNone is a machine without the controllers that are needed.
var ErrNone = errors.New("no control groups")

// controllers are what is needed, as the kernel calls them.
var controllers = []string{"cpu", "memory"}

// account is the controller of version 1 that counts processor time. In version 2 every group counts it.
const account = "cpuacct"

type hierarchy struct {
	root        string // where it is mounted
	unified     bool   // version 2
	controllers []string
}

// Tree is where the controllers are.
type Tree struct {
	hierarchies []hierarchy
	// rmdir removes a group: it has no groups below it and no processes.
	rmdir func(path string) error
}

// Find returns the tree of this machine. The error is ErrNone, with what is missing, if it can't bound processor time and memory.
func Find() (*Tree, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	return find(string(mounts))
}

// find reads the text of /proc/self/mountinfo.
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
	if root, unified := locate(mounts, account); root != "" && !unified && !slices.ContainsFunc(t.hierarchies, func(h hierarchy) bool { return h.root == root }) {
		t.hierarchies = append(t.hierarchies, hierarchy{root: root, controllers: []string{account}})
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("%w with the controller %s are mounted; on most systems they are under /sys/fs/cgroup", ErrNone, strings.Join(missing, " and "))
	}
	return t, nil
}

// locate returns where a controller's hierarchy is mounted; "" if it is nowhere.
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

// Limits bound what the processes of a group use together.
type Limits struct {
	CPUs   float64 // seconds of processor time per second; 0: no limit
	Memory int64   // bytes; 0: no limit
}

// Group is processes that have limits together.
type Group struct {
	tree *Tree
	dirs []string // one in each hierarchy
}

// Owner makes groups.
type Owner struct {
	tree   *Tree
	name   string
	groups []*Group
}

// Own returns this process as an owner.
func (t *Tree) Own() (*Owner, error) {
	name, err := ownName(os.Getpid())
	if err != nil {
		return nil, err
	}
	return &Owner{tree: t, name: name}, nil
}

// Make makes a group. When it fails nothing is left of it.
func (o *Owner) Make(name string, l Limits) (*Group, error) {
	g := &Group{tree: o.tree}
	for _, h := range o.tree.hierarchies {
		dir, err := h.make(o.name, name, l)
		if dir != "" {
			g.dirs = append(g.dirs, dir)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("making the control group %s: %w", name, err), g.remove())
		}
	}
	o.groups = append(o.groups, g)
	return g, nil
}

// make makes the group in a hierarchy. dir is empty if there is none.
func (h hierarchy) make(owner, name string, l Limits) (dir string, err error) {
	above := filepath.Join(h.root, owner)
	if err := h.handOn(h.root); err != nil {
		return "", err
	}
	if err := os.Mkdir(above, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	if err := h.handOn(above); err != nil {
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

// handOn lets the groups below one have the controllers; in version 1 they always do.
func (h hierarchy) handOn(dir string) error {
	if !h.unified {
		return nil
	}
	err := write(filepath.Join(dir, "cgroup.subtree_control"), "+"+strings.Join(h.controllers, " +"))
	if errors.Is(err, unix.EBUSY) {
		err = fmt.Errorf("%w: it has processes of its own; in a container, mount the host's control groups", err)
	}
	return err
}

type setting struct{ file, value string }

// files returns what limits are written as, in the order in which they are to be written.
func (h hierarchy) files(l Limits) (settings []setting) {
	per, of := period, time.Duration(math.Round(l.CPUs*float64(period)))
	if l.CPUs > 0 && of < minQuota {
		per, of = min(time.Duration(float64(minQuota)/l.CPUs), maxPeriod), minQuota
	}
	quota, each := strconv.FormatInt(of.Microseconds(), 10), strconv.FormatInt(per.Microseconds(), 10)
	switch bounded := slices.Contains(h.controllers, "cpu") && l.CPUs > 0; {
	case bounded && h.unified:
		settings = append(settings, setting{"cpu.max", quota + " " + each})
	case bounded:
		settings = append(settings, setting{"cpu.cfs_period_us", each}, setting{"cpu.cfs_quota_us", quota})
	}
	switch bounded := slices.Contains(h.controllers, "memory") && l.Memory > 0; {
	case bounded && h.unified:
		settings = append(settings, setting{"memory.max", strconv.FormatInt(l.Memory, 10)})
	case bounded:
		settings = append(settings, setting{"memory.limit_in_bytes", strconv.FormatInt(l.Memory, 10)})
	}
	return settings
}

// ProcessFiles are the files into which a process writes its id to be in the group. Its children are born into it.
func (g *Group) ProcessFiles() (files []string) {
	for _, dir := range g.dirs {
		files = append(files, processFile(dir))
	}
	return files
}

// Used returns the processor time that the processes of a group have used, user and system. dirs are the directories of the group, of
// which one counts.
func Used(dirs []string) (user, system time.Duration, err error) {
	for _, dir := range dirs {
		if user, system, err = used(dir); !errors.Is(err, fs.ErrNotExist) {
			return user, system, err
		}
	}
	return 0, 0, fmt.Errorf("processor time of the control group %s: %w", strings.Join(dirs, ", "), cmp.Or(err, fs.ErrNotExist))
}

// used reads what one directory counts. The error is fs.ErrNotExist if that is no processor time.
func used(dir string) (user, system time.Duration, err error) {
	if user, err = readTime(dir, "cpuacct.usage_user", "", time.Nanosecond); err == nil {
		system, err = readTime(dir, "cpuacct.usage_sys", "", time.Nanosecond)
		return user, system, err
	}
	if user, err = readTime(dir, "cpu.stat", "user_usec", time.Microsecond); err == nil {
		system, err = readTime(dir, "cpu.stat", "system_usec", time.Microsecond)
	}
	return user, system, err
}

// readTime returns the number that follows a name in a file, or its first one; fs.ErrNotExist if there is none.
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

// Dirs are the directories of the group.
func (g *Group) Dirs() []string { return slices.Clone(g.dirs) }

func processFile(dir string) string { return filepath.Join(dir, "cgroup.procs") }

// remove removes the group, which has no processes.
func (g *Group) remove() (err error) {
	for _, dir := range g.dirs {
		err = errors.Join(err, g.tree.remove(dir))
	}
	return err
}

// Close removes the owner's groups. Their processes have ended.
func (o *Owner) Close() (err error) {
	for _, g := range o.groups {
		err = errors.Join(err, g.remove())
	}
	for _, h := range o.tree.hierarchies {
		err = errors.Join(err, o.tree.remove(filepath.Join(h.root, o.name)))
	}
	o.groups = nil
	return err
}

// remove removes one directory. What isn't there is no error.
func (t *Tree) remove(dir string) error {
	for deadline := time.Now().Add(emptyTimeout); ; time.Sleep(time.Millisecond) {
		err := t.rmdir(dir)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		// A process that has ended counts for a moment longer.
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
