package faults

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"mcmw/internal/protocol"
)

// The only user in scenarios with logins.
const (
	loginUser     = "load"
	loginPassword = "secret"
)

// writePasswords writes the password file into a directory of its own.
func writePasswords() (path string, err error) {
	dir, err := os.MkdirTemp("", "mcmwlab-")
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, "passwords")
	return path, os.WriteFile(path, []byte(loginUser+":"+loginPassword+"\n"), 0o600)
}

// logIn logs in on conn. A memcached without passwords treats the login as a write.
func logIn(conn net.Conn) error {
	if err := exchange(conn, protocol.AppendLogin(nil, loginUser, loginPassword), protocol.TextStored); err != nil {
		return err
	}
	return conn.SetDeadline(time.Time{})
}

// exchange sends a request and reads as many bytes as want has. If they differ from want, the error is a badReply.
func exchange(conn net.Conn, request []byte, want string) error {
	_ = conn.SetDeadline(time.Now().Add(answerWithin))
	if _, err := conn.Write(request); err != nil {
		return err
	}
	got := make([]byte, len(want))
	n, err := io.ReadFull(conn, got)
	if string(got[:n]) != want[:n] {
		return &badReply{strconv.Quote(string(got[:n]))}
	}
	return err
}

// visit logs in on a new connection and sends a write.
func visit(conn net.Conn) error {
	if err := logIn(conn); err != nil {
		return fmt.Errorf("a login: %w", err)
	}
	if err := exchange(conn, []byte("set visitor 0 0 1\r\nx\r\n"), protocol.TextStored); err != nil {
		return fmt.Errorf("a set after a login: %w", err)
	}
	return nil
}

// unserved reports whether err means that the service answered wrongly or not at all, rather than that the connection
// ended.
func unserved(err error) bool {
	bad := new(badReply)
	return errors.As(err, &bad) || errors.Is(err, os.ErrDeadlineExceeded)
}
