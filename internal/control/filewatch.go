package control

import (
	"os"
	"syscall"
	"time"
)

// fileWatch detects that a file has changed and is not being written any more. It polls. That needs no library, and
// also detects changes without file events: a symbolic link in the path that now points elsewhere, as with a ConfigMap,
// and changes on file systems without events.
type fileWatch struct {
	known stamp // of the contents read last; zero: none
	last  stamp // at the last check
}

// stamp is metadata of a file that changes when its content does.
type stamp struct {
	there    bool
	dev, ino uint64
	size     int64
	modified time.Time
}

// look returns the stamp of the file at path, following links.
func look(path string) stamp {
	info, err := os.Stat(path)
	if err != nil {
		return stamp{}
	}
	s := stamp{there: true, size: info.Size(), modified: info.ModTime()}
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		s.dev, s.ino = uint64(sys.Dev), sys.Ino
	}
	return s
}

// changed checks the file and reports whether it should be read: it is not what was read last, and it is the same as at
// the previous check, so nobody is writing it.
func (w *fileWatch) changed(path string) bool {
	before := w.last
	w.last = look(path)
	return w.last != w.known && w.last == before
}

// read records that the file is about to be read.
func (w *fileWatch) read(path string) { w.known = look(path) }
