// Package secret reads files that may be renewed while the program runs: certificates with their keys, and names with
// their passwords. The files are checked when their contents are needed, at most once per second. If the new contents
// are invalid, the previous ones stay in use, and the log says why.
//
// Contents never appear in an error or in the log. If a private file has changed and every user of the machine can read
// it, a warning is logged. At the start the program calls Exposed for that.
package secret

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// checkEvery is the minimum time between two checks of the files.
const checkEvery = time.Second

// FileError is an error in a file.
type FileError struct {
	Path string
	Err  error
}

func (e *FileError) Error() string { return fmt.Sprintf("%s: %v", e.Path, e.Err) }

// Unwrap returns the cause.
func (e *FileError) Unwrap() error { return e.Err }

// followed is a value that is made from files, and made again when their contents change. Its methods may be called
// from any goroutine.
type followed[T any] struct {
	// Static after construction.
	what  string // for the log
	paths []string
	// private are the paths of files that other users should not be able to read.
	private []string
	parse   func(contents map[string][]byte) (*T, error) // contents are by path
	log     *slog.Logger
	since   time.Time

	current atomic.Pointer[T]
	checked atomic.Int64 // when the files were last checked, in ns after since

	// mu guards the field below. It is held while the files are read. A caller that finds it locked uses the current
	// value.
	mu   sync.Mutex
	seen [sha256.Size]byte // hash of the contents, or of the error, found at the last check
}

// follow reads the files and makes the value. private are the paths of files that other users should not be able to
// read. what names the files in the log. The error is a *FileError.
func follow[T any](what string, paths, private []string, log *slog.Logger,
	parse func(map[string][]byte) (*T, error),
) (*followed[T], error) {
	f := &followed[T]{what: what, paths: paths, private: private, parse: parse, log: log, since: time.Now()}
	contents, err := f.read()
	if err != nil {
		return nil, err
	}
	value, err := parse(contents)
	if err != nil {
		return nil, err
	}
	f.current.Store(value)
	f.seen = digest(contents, nil)
	return f, nil
}

// get returns the value for the contents that the files had at most checkEvery ago.
func (f *followed[T]) get() *T {
	now := int64(time.Since(f.since))
	if now-f.checked.Load() >= int64(checkEvery) && f.mu.TryLock() {
		f.check()
		f.checked.Store(now)
		f.mu.Unlock()
	}
	return f.current.Load()
}

// check makes the value again if the contents have changed; mu is held. It compares contents instead of modification
// times: the files are short, and a file may be replaced by one with the same time and size.
func (f *followed[T]) check() {
	contents, err := f.read()
	seen := digest(contents, err)
	if seen == f.seen {
		return
	}
	f.seen = seen
	var value *T
	if err == nil {
		value, err = f.parse(contents)
	}
	if err != nil {
		f.log.Warn("changed files are not accepted; the previous contents stay in use", "what", f.what, "error", err)
		return
	}
	f.current.Store(value)
	f.log.Info("changed files were read", "what", f.what, "files", f.paths)
	for _, path := range f.private {
		if text := Exposed(path); text != "" {
			f.log.Warn(text)
		}
	}
}

// Exposed returns a warning if every user of the machine can read the file at path, otherwise "".
func Exposed(path string) string {
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm()&0o004 == 0 {
		return ""
	}
	return fmt.Sprintf("%s holds secrets and has mode %04o: every user of this machine can read it; use chmod o-rwx",
		path, info.Mode().Perm())
}

func (f *followed[T]) read() (map[string][]byte, error) {
	contents := make(map[string][]byte, len(f.paths))
	for _, path := range f.paths {
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, &FileError{path, errors.Unwrap(err)} // without the path that package os adds
		}
		contents[path] = b
	}
	return contents, nil
}

func digest(contents map[string][]byte, err error) [sha256.Size]byte {
	return sha256.Sum256(fmt.Appendf(nil, "%q %v", contents, err))
}
