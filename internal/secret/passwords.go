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

// maxEntry is the maximum length in bytes of a line of a password file in memcached, including the line end.
const maxEntry = 255

// unsendable are the bytes that end a name or a password in memcached's login, so that they cannot contain them.
const unsendable = " \r\x00"

// entry is a line of a password file.
type entry struct{ user, password string }

// Users returns a function that reports whether a name and a password match a line of the file at path. It takes the
// same time for correct and wrong ones. The file has the format of memcached's --auth-file: lines user:password. The
// error is a *FileError.
func Users(path string, log *slog.Logger) (allow func(user, password []byte) bool, err error) {
	// Hashes are kept instead of names and passwords.
	f, err := follow("names and passwords of clients", []string{path}, []string{path}, log,
		func(contents [][]byte) (*[][sha256.Size]byte, error) {
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

// Login returns a function that returns the name and the password in the only line of the file at path. The error is a
// *FileError.
func Login(path string, log *slog.Logger) (func() (user, password string), error) {
	f, err := follow("name and password for servers", []string{path}, []string{path}, log,
		func(contents [][]byte) (*entry, error) {
			entries, err := parseEntries(path, contents[0])
			if err == nil && len(entries) > 1 {
				err = &FileError{path, fmt.Errorf("has %d lines; accepted: one line user:password", len(entries))}
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

// hash returns the hash of a name and a password. It includes the length of the name, so that the two are not
// ambiguous.
func hash(user, password []byte) [sha256.Size]byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(user)))
	return sha256.Sum256(append(append(b, user...), password...))
}

// parseEntries parses lines user:password. It is an error if there are none. An entry with a blank is refused:
// memcached's protocol separates words by blanks, so it could never match.
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
			err = errors.New("has no password after the colon")
		case bytes.ContainsAny(user, unsendable) || bytes.ContainsAny(password, unsendable):
			err = errors.New("contains a blank, a carriage return or a zero byte, which no client can send")
		case len(line) > maxEntry:
			err = fmt.Errorf("has %d bytes; accepted: up to %d, as in memcached", len(line), maxEntry)
		}
		if err != nil {
			return nil, &FileError{path, fmt.Errorf("line %d %w", n, err)}
		}
		entries = append(entries, entry{string(user), string(password)})
	}
	if entries == nil {
		return nil, &FileError{path, errors.New("is empty; accepted: lines user:password")}
	}
	return entries, nil
}
