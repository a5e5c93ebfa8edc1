package secret

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
)

// maxEntry is the longest line of a file of passwords that memcached reads, bytes with the line's end.
const maxEntry = 255

// unsendable are the bytes that end a name or a password where memcached reads them.
const unsendable = " \r\x00"

// entry is a line of a file of passwords.
type entry struct{ user, password string }

// Users returns a function that says whether a name and a password stand in a line of the file at path, as of a moment
// ago; it takes the same time for right and wrong ones. The form of the file is that of memcached's --auth-file: lines
// user:password. The error is a *FileError.
func Users(path string, log *slog.Logger) (allow func(user, password []byte) bool, err error) {
	// Names and passwords are not kept, but what they hash to.
	f, err := follow("names and passwords of clients", []string{path}, []string{path}, log, func(contents [][]byte) (*[][sha256.Size]byte, error) {
		entries, err := parseEntries(path, contents[0])
		if err != nil {
			return nil, err
		}
		sums := make([][sha256.Size]byte, len(entries))
		for i, e := range entries {
			sums[i] = hash([]byte(e.user), []byte(e.password))
		}
		return &sums, nil
	})
	if err != nil {
		return nil, err
	}
	return func(user, password []byte) bool {
		given := hash(user, password)
		found := 0
		for _, sum := range *f.get() {
			found |= subtle.ConstantTimeCompare(sum[:], given[:])
		}
		return found == 1
	}, nil
}

// Login returns a function that returns the name and the password in the one line of the file at path, as of a moment ago.
// The error is a *FileError.
func Login(path string, log *slog.Logger) (func() (user, password string), error) {
	f, err := follow("name and password for servers", []string{path}, []string{path}, log, func(contents [][]byte) (*entry, error) {
		entries, err := parseEntries(path, contents[0])
		if err == nil && len(entries) > 1 {
			err = &FileError{path, fmt.Errorf("has %d lines; one user:password is wanted", len(entries))}
		}
		if err != nil {
			return nil, err
		}
		return &entries[0], nil
	})
	if err != nil {
		return nil, err
	}
	return func() (string, string) {
		e := f.get()
		return e.user, e.password
	}, nil
}

// hash is of a name and a password, and of where one ends.
func hash(user, password []byte) [sha256.Size]byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(user)))
	return sha256.Sum256(append(append(b, user...), password...))
}

// parseEntries reads lines user:password, at least one. What memcached could never match, because its protocol separates by
// blanks, is refused.
func parseEntries(path string, contents []byte) ([]entry, error) {
	var entries []entry
	n := 0
	for line := range bytes.Lines(contents) {
		n++
		user, password, ok := bytes.Cut(bytes.TrimRight(line, "\r\n"), []byte(":"))
		var err error
		switch {
		case !ok:
			err = errors.New("is not of the form user:password")
		case len(user) == 0:
			err = errors.New("has no name before the colon")
		case len(password) == 0:
			err = errors.New("has no password behind the colon")
		case bytes.ContainsAny(user, unsendable) || bytes.ContainsAny(password, unsendable):
			err = errors.New("has a blank, a carriage return or a zero byte in it, which no client can send")
		case len(line) > maxEntry:
			err = fmt.Errorf("has %d bytes; memcached reads %d", len(line), maxEntry)
		}
		if err != nil {
			return nil, &FileError{path, fmt.Errorf("line %d %w", n, err)}
		}
		entries = append(entries, entry{string(user), string(password)})
	}
	if entries == nil {
		return nil, &FileError{path, errors.New("is empty; lines user:password are wanted")}
	}
	return entries, nil
}
