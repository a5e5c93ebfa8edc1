package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

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
