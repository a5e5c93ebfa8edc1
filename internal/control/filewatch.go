package control

import "os"

// fileWatch detects that a file has changed and is not being written any more. It polls. That needs no library, and
// also detects changes without file events: a symbolic link in the path that now points elsewhere, as with a ConfigMap,
// and changes on file systems without events.
type fileWatch struct {
	known os.FileInfo // of the contents read last; nil: none
	last  os.FileInfo // at the last check; nil: there was no file
}

// look returns the metadata of the file at path, following links; nil: there is none.
func look(path string) os.FileInfo {
	info, err := os.Stat(path)
	if err != nil {
		return nil
	}
	return info
}

// same reports whether the metadata are those of a file that has not changed.
func same(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == b
	}
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// changed checks the file and reports whether it should be read: it is not what was read last, and it is the same as at
// the previous check, so nobody is writing it.
func (w *fileWatch) changed(path string) bool {
	before := w.last
	w.last = look(path)
	return !same(w.last, w.known) && same(w.last, before)
}

// read records that the file is about to be read.
func (w *fileWatch) read(path string) { w.known = look(path) }
