package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ownerForm is the form of the names of owners' groups: the id of the process, when it was started, in ticks since the machine was, and the PID
// namespace that has the id. A later process of the same id has another start; whether one of another namespace runs cannot be
// told.
var ownerForm = regexp.MustCompile(`^mcmwlab-([1-9][0-9]*)-([0-9]+)-([0-9]+)$`)

// ownName returns what the groups of a process are below.
func ownName(pid int) (string, error) {
	started, err := startOf(pid)
	if err != nil {
		return "", err
	}
	namespace, err := pidNamespace()
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("mcmwlab-%d-%s-%d", pid, started, namespace), nil
}

// pidNamespace returns the number of this process's PID namespace.
func pidNamespace() (number uint64, err error) {
	var s unix.Stat_t
	if err := unix.Stat("/proc/self/ns/pid", &s); err != nil {
		return 0, fmt.Errorf("asking for the PID namespace of this process: %w", err)
	}
	return s.Ino, nil
}

// startOf returns when a process was started.
func startOf(pid int) (string, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return "", err
	}
	// The name, in parentheses, may have spaces and parentheses. What follows begins with the third field; the start is the 22nd.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) < 20 {
		return "", fmt.Errorf("/proc/%d/stat: expected 22 fields or more", pid)
	}
	return fields[19], nil
}

// runs reports whether the owner of that name still runs, or may: in another PID namespace.
func runs(name string) (bool, error) {
	parts := ownerForm.FindStringSubmatch(name)
	namespace, err := pidNamespace()
	if err != nil {
		return false, err
	}
	if parts[3] != strconv.FormatUint(namespace, 10) {
		return true, nil
	}
	pid, err := strconv.Atoi(parts[1])
	if err != nil {
		return false, nil // no process has such an id
	}
	started, err := startOf(pid)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return false, nil
	}
	return started == parts[2], err
}

// Left lists what was left behind by an owner that has ended.
type Left struct {
	Owner string // mcmwlab-PID-START-NAMESPACE
	PID   int
	// Groups are directories, Processes the ids of those that still ran in them.
	Groups    []string
	Processes []int
}

// Clean ends the processes and removes the groups of owners that have ended, and returns what it removed. Those of owners that run
// are left alone, and those of other PID namespaces, such as other containers'.
func (t *Tree) Clean() (found []Left, err error) {
	for _, h := range t.hierarchies {
		entries, readErr := os.ReadDir(h.root)
		if readErr != nil {
			return found, errors.Join(err, readErr)
		}
		for _, entry := range entries {
			if !ownerForm.MatchString(entry.Name()) {
				continue
			}
			alive, aliveErr := runs(entry.Name())
			if aliveErr != nil || alive {
				err = errors.Join(err, aliveErr)
				continue
			}
			at := slices.IndexFunc(found, func(l Left) bool { return l.Owner == entry.Name() })
			if at < 0 {
				at = len(found)
				pid, _ := strconv.Atoi(ownerForm.FindStringSubmatch(entry.Name())[1])
				found = append(found, Left{Owner: entry.Name(), PID: pid})
			}
			err = errors.Join(err, t.clean(filepath.Join(h.root, entry.Name()), &found[at]))
		}
	}
	return found, err
}

// clean removes a group and those below it.
func (t *Tree) clean(dir string, left *Left) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // another cleaned up, too
	}
	for _, entry := range entries {
		if entry.IsDir() {
			err = errors.Join(err, t.clean(filepath.Join(dir, entry.Name()), left))
		}
	}
	ended, endErr := endAll(dir)
	for _, pid := range ended {
		if !slices.Contains(left.Processes, pid) {
			left.Processes = append(left.Processes, pid)
		}
	}
	if err = errors.Join(err, endErr); err != nil {
		return err
	}
	left.Groups = append(left.Groups, dir)
	return t.remove(dir)
}

// endAll kills the processes of a group and waits until they are gone. It returns their ids.
func endAll(dir string) (pids []int, err error) {
	for deadline := time.Now().Add(emptyTimeout); ; time.Sleep(time.Millisecond) {
		text, err := os.ReadFile(processFile(dir))
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENODEV) {
			return pids, err
		}
		left := strings.Fields(string(text))
		if len(left) == 0 {
			return pids, nil
		}
		for _, word := range left {
			pid, err := strconv.Atoi(word)
			if err != nil || pid <= 0 {
				return pids, fmt.Errorf("%s: a process of another PID namespace is in it; run the cleanup there", dir)
			}
			if !slices.Contains(pids, pid) {
				pids = append(pids, pid)
			}
			if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
				return pids, fmt.Errorf("ending process %d in %s: %w", pid, dir, err)
			}
		}
		if time.Now().After(deadline) {
			return pids, fmt.Errorf("%s: the processes %v don't end", dir, left)
		}
	}
}
