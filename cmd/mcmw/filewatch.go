package main

import (
	"os"
	"syscall"
	"time"
)

// fileWatch tells when a file has changed and come to rest. It is looked at from time to time, which needs no library, and sees
// what a watch for events does not: a symbolic link on the way that now leads elsewhere, as those of a ConfigMap do, and changes
// on file systems that report none.
type fileWatch struct {
	known stamp // of what was read last; the zero value is nothing
	last  stamp // at the last look
}

// stamp is what of a file differs when its content does.
type stamp struct {
	there    bool
	dev, ino uint64
	size     int64
	modified time.Time
}

// look returns the stamp of the file that path leads to.
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

// changed looks at the file, and reports whether it should be read: it is not what was read last, and it is as it was at
// the look before, so that nobody is writing it.
func (w *fileWatch) changed(path string) bool {
	before := w.last
	w.last = look(path)
	return w.last != w.known && w.last == before
}

// read says that the file is about to be read.
func (w *fileWatch) read(path string) { w.known = look(path) }
