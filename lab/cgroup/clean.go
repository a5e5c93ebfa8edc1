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

	"mcmw/lab/kernel"
)

// ownerForm is the form of the names of owners' groups: the id of the process, its start in ticks since the machine's
// start, and the PID namespace of the id. A later process with the same id has another start. Whether a process of
// another PID namespace runs cannot be known.
var ownerForm = regexp.MustCompile(`^mcmwlab-([1-9][0-9]*)-([0-9]+)-([0-9]+)$`)

// ownName returns the name of the group that contains a process's groups.
func ownName(pid int) (string, error) {
	started, err := kernel.StartTime(pid)
	if err != nil {
		return "", err
	}
	namespace, err := pidNamespace()
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("mcmwlab-%d-%d-%d", pid, started, namespace), nil
}

// pidNamespace returns the number of this process's PID namespace.
func pidNamespace() (number uint64, err error) {
	var s unix.Stat_t
	if err := unix.Stat("/proc/self/ns/pid", &s); err != nil {
		return 0, fmt.Errorf("reading the PID namespace of this process: %w", err)
	}
	return s.Ino, nil
}

// runs reports whether the owner runs whose name has these parts. An owner of another PID namespace is taken to run.
func runs(parts []string) (bool, error) {
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
	started, err := kernel.StartTime(pid)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return strconv.FormatUint(started, 10) == parts[2], err
}

// Left lists what an owner that has ended left behind.
type Left struct {
	Owner string // mcmwlab-PID-START-NAMESPACE
	PID   int
	// Groups are directories. Processes are the ids of processes that still ran in them.
	Groups    []string
	Processes []int
}

// Clean ends the processes and removes the groups of owners that have ended, and returns what it removed. It leaves
// alone those of owners that run, and those of other PID namespaces, such as other containers.
func (t *Tree) Clean() (found []Left, err error) {
	for _, h := range t.hierarchies {
		entries, readErr := os.ReadDir(h.root)
		if readErr != nil {
			return found, errors.Join(err, readErr)
		}
		for _, entry := range entries {
			parts := ownerForm.FindStringSubmatch(entry.Name())
			if parts == nil {
				continue
			}
			alive, aliveErr := runs(parts)
			if aliveErr != nil || alive {
				err = errors.Join(err, aliveErr)
				continue
			}
			at := slices.IndexFunc(found, func(l Left) bool { return l.Owner == entry.Name() })
			if at < 0 {
				at = len(found)
				pid, _ := strconv.Atoi(parts[1])
				found = append(found, Left{Owner: entry.Name(), PID: pid})
			}
			err = errors.Join(err, t.clean(filepath.Join(h.root, entry.Name()), &found[at]))
		}
	}
	return found, err
}

// clean removes a group and the groups below it.
func (t *Tree) clean(dir string, left *Left) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // another process has removed it
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

// endAll kills the processes of a group, waits until they have ended, and returns their ids.
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
				return pids, fmt.Errorf("%s contains a process of another PID namespace; run the cleanup there", dir)
			}
			if !slices.Contains(pids, pid) {
				pids = append(pids, pid)
			}
			if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
				return pids, fmt.Errorf("ending process %d in %s: %w", pid, dir, err)
			}
		}
		if time.Now().After(deadline) {
			return pids, fmt.Errorf("%s: the processes %v have not ended %v after SIGKILL", dir, left, emptyTimeout)
		}
	}
}
