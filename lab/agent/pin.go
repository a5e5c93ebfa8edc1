package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"mcmw/lab/kernel"
)

// Pinned binds a process to processors, out of those that this process may use. With Threads 0, all its threads are
// bound to processor number First. Otherwise each of its threads that serve requests is bound to a processor of its
// own, from number First on; the process must have that many such threads. Numbers beyond the last processor wrap
// around.
type Pinned struct{ Process, First, Threads int }

func (p *Pinned) pin() error {
	var own unix.CPUSet
	if err := unix.SchedGetaffinity(0, &own); err != nil {
		return fmt.Errorf("reading the processors of this process: %w", err)
	}
	var processors []int
	for cpu := 0; len(processors) < own.Count(); cpu++ {
		if own.IsSet(cpu) {
			processors = append(processors, cpu)
		}
	}
	if p.Threads == 0 {
		return pinAll(p.Process, processors[p.First%len(processors)])
	}
	tids, err := serving(p.Process, p.Threads)
	if err != nil {
		return err
	}
	for i, tid := range tids {
		if err := pinThread(tid, processors[(p.First+i)%len(processors)]); err != nil {
			return err
		}
	}
	return nil
}

// pinAll binds all threads of a process to one processor. It looks for threads until it finds no new ones. Threads
// inherit the processor of the thread that starts them.
func pinAll(pid, cpu int) error {
	done := map[int]bool{}
	for {
		threads, err := kernel.Threads(pid)
		if err != nil {
			return err
		}
		before := len(done)
		for _, t := range threads {
			if done[t.ID] {
				continue
			}
			if err := pinThread(t.ID, cpu); err != nil && !errors.Is(err, unix.ESRCH) { // ESRCH: it has ended
				return err
			}
			done[t.ID] = true
		}
		if len(done) == before {
			return nil
		}
	}
}

func pinThread(tid, cpu int) error {
	var set unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedSetaffinity(tid, &set); err != nil {
		return fmt.Errorf("binding thread %d to processor %d: %w", tid, cpu, err)
	}
	return nil
}

// serving returns the n threads of a process that serve requests: memcached's workers, or Redis's main thread and
// input-output threads.
func serving(pid, n int) (serving []int, err error) {
	threads, err := kernel.Threads(pid)
	if err != nil {
		return nil, err
	}
	var names []string
	named := func(prefix string) (found []int) {
		names = nil
		for _, t := range threads {
			if names = append(names, t.Name); strings.HasPrefix(t.Name, prefix) {
				found = append(found, t.ID)
			}
		}
		return found
	}
	if serving = named("mc-worker"); len(serving) == 0 {
		serving = append([]int{pid}, named("io_thd_")...)
	}
	if len(serving) != n {
		slices.Sort(names)
		return nil,
			fmt.Errorf("process %d has %d threads that serve requests, expected %d; its threads are %s (memcached "+
				"names its threads since 1.6.16, Redis since 6.0)",
				pid, len(serving), n, strings.Join(slices.Compact(names), ", "))
	}
	return serving, nil
}

// scratchPrefix begins the names of scratch directories. The id of the owning process follows.
const scratchPrefix = "mcmwlab-scratch-"

// Scratch makes a directory, writes its path as a line, and removes it when ctx ends. First it removes the directories
// of killed processes.
func Scratch(ctx context.Context, w io.Writer) (err error) {
	if err := removeLeft(os.TempDir()); err != nil {
		return err
	}
	dir := filepath.Join(os.TempDir(), scratchPrefix+strconv.Itoa(os.Getpid()))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if _, err := fmt.Fprintln(w, dir); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// removeLeft removes the scratch directories in a directory whose owners have ended.
func removeLeft(in string) error {
	left, err := filepath.Glob(filepath.Join(in, scratchPrefix+"*"))
	if err != nil {
		return err
	}
	for _, dir := range left {
		pid, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(dir), scratchPrefix))
		if err != nil || !errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
			continue
		}
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	return nil
}

// Configured is a program that reads its configuration from a file. Each {} in its arguments becomes the file's path.
// The file has no name in any directory and ends with the program.
type Configured struct {
	Config, Program string
	Args            []string
}

// become replaces this process with the program.
func (c *Configured) become() error {
	path, err := exec.LookPath(c.Program)
	if err != nil {
		return err
	}
	file, err := unix.MemfdCreate("configuration", 0)
	if err != nil {
		return fmt.Errorf("making a file for the configuration of %s: %w", c.Program, err)
	}
	if _, err := unix.Write(file, []byte(c.Config)); err != nil {
		return fmt.Errorf("writing the configuration of %s: %w", c.Program, err)
	}
	words := []string{c.Program}
	for _, arg := range c.Args {
		words = append(words, strings.ReplaceAll(arg, "{}", fmt.Sprintf("/proc/self/fd/%d", file)))
	}
	return fmt.Errorf("%s: %w", path, unix.Exec(path, words, os.Environ()))
}
