package secret

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
)

// maxEntry is the maximum length in bytes of a line of a password file in memcached, including the line end.
const maxEntry = 255

// maxPrefix is the length in bytes of memcached's longest key.
const maxPrefix = 250

// unsendable are the bytes that end a name or a password in memcached's login, so that they cannot contain them.
const unsendable = " \r\x00"

// entry is a line of a password file.
type entry struct {
	user, password string
	prefixes       []string
}

// User is who a client has logged in as. It is immutable.
type User struct {
	Name     string
	Prefixes []string // of the keys that the user may use; none: all keys
}

// May reports whether the user may use key.
func (u *User) May(key []byte) bool {
	for _, p := range u.Prefixes {
		if len(key) >= len(p) && string(key[:len(p)]) == p {
			return true
		}
	}
	return len(u.Prefixes) == 0
}

// Users returns a function that returns the user whose name and password these are; nil: there is none. It takes the
// same time for correct and wrong ones. The file at path has the format of memcached's --auth-file, lines
// user:password. After a line's password, prefixes may follow, each after a blank: the user may use only keys that
// begin with one of them. The error is a *FileError.
func Users(path string, log *slog.Logger) (login func(user, password []byte) *User, err error) {
	type known struct {
		sums  [][sha256.Size]byte // of names and passwords, which are not kept
		users []*User
	}
	f, err := follow("names and passwords of clients", []string{path}, []string{path}, log,
		func(contents map[string][]byte) (*known, error) {
			entries, err := parseEntries(path, contents[path])
			if err != nil {
				return nil, err
			}
			k := new(known)
			for i, e := range entries {
				sum := hash([]byte(e.user), []byte(e.password))
				if at := slices.Index(k.sums, sum); at >= 0 && !slices.Equal(k.users[at].Prefixes, e.prefixes) {
					return nil, &FileError{path, fmt.Errorf(
						"line %d has the name and the password of line %d, but other prefixes", i+1, at+1)}
				}
				k.sums, k.users = append(k.sums, sum), append(k.users, &User{e.user, e.prefixes})
			}
			return k, nil
		})
	if err != nil {
		return nil, err
	}
	return func(user, password []byte) *User {
		given := hash(user, password)
		k := f.get()
		found := -1
		for i, sum := range k.sums {
			found = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(sum[:], given[:]), i, found)
		}
		if found < 0 {
			return nil
		}
		return k.users[found]
	}, nil
}

// Login returns a function that returns the name and the password in the only line of the file at path. The error is a
// *FileError.
func Login(path string, log *slog.Logger) (func() (user, password string), error) {
	f, err := follow("name and password for servers", []string{path}, []string{path}, log,
		func(contents map[string][]byte) (*entry, error) {
			entries, err := parseEntries(path, contents[path])
			switch {
			case err != nil:
			case len(entries) > 1:
				err = &FileError{path, fmt.Errorf("has %d lines; accepted: one line user:password", len(entries))}
			case len(entries[0].prefixes) > 0:
				err = &FileError{path, errors.New("has a blank in its line; accepted: one line user:password")}
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

// hash returns the hash of a name and a password. They are quoted, so that the two are not ambiguous.
func hash(user, password []byte) [sha256.Size]byte {
	return sha256.Sum256(fmt.Appendf(nil, "%q %q", user, password))
}

// parseEntries parses lines user:password and, after blanks, prefixes. It is an error if there are none. No name and no
// password has a blank: memcached's protocol separates words by blanks, so it could never match.
func parseEntries(path string, contents []byte) ([]entry, error) {
	var entries []entry
	n := 0
	for line := range bytes.Lines(contents) {
		n++
		line = bytes.TrimRight(line, "\r\n")
		user, rest, ok := bytes.Cut(line, []byte(":"))
		password, list, bound := bytes.Cut(rest, []byte(" "))
		length := len(user) + len(":") + len(password) + len("\n")
		var prefixes []string
		if bound {
			prefixes = strings.Split(string(list), " ")
		}
		var err error
		switch {
		case !ok:
			err = errors.New("is not of the form user:password")
		case len(user) == 0:
			err = errors.New("has no name before the colon")
		case len(password) == 0:
			err = errors.New("has no password after the colon")
		case bytes.ContainsAny(user, unsendable) || bytes.ContainsAny(rest, unsendable[1:]):
			err = errors.New("contains a blank, a carriage return or a zero byte, which no client can send")
		case length > maxEntry:
			err = fmt.Errorf("has %d bytes; accepted: up to %d, as in memcached", length, maxEntry)
		case slices.Contains(prefixes, ""):
			err = errors.New("has a blank after which no prefix follows; accepted: user:password, or " +
				"user:password PREFIX [PREFIX ...]")
		case slices.ContainsFunc(prefixes, func(p string) bool { return len(p) > maxPrefix }):
			err = fmt.Errorf("has a prefix of more than %d bytes; no key is as long", maxPrefix)
		}
		if err != nil {
			return nil, &FileError{path, fmt.Errorf("line %d %w", n, err)}
		}
		entries = append(entries, entry{string(user), string(password), prefixes})
	}
	if entries == nil {
		return nil, &FileError{path, errors.New("is empty; accepted: lines user:password")}
	}
	return entries, nil
}
