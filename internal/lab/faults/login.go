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
	_ = conn.SetDeadline(time.Now().Add(answerWithin))
	if _, err := conn.Write(protocol.AppendLogin(nil, loginUser, loginPassword)); err != nil {
		return err
	}
	if err := expect(conn, protocol.TextStored); err != nil {
		return err
	}
	return conn.SetDeadline(time.Time{})
}

// expect reads as many bytes as want has and returns a badReply if they differ.
func expect(conn net.Conn, want string) error {
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
	_ = conn.SetDeadline(time.Now().Add(answerWithin))
	if _, err := conn.Write([]byte("set visitor 0 0 1\r\nx\r\n")); err != nil {
		return err
	}
	if err := expect(conn, protocol.TextStored); err != nil {
		return fmt.Errorf("a set after a login: %w", err)
	}
	return nil
}

// unserved reports whether err means that the service answered wrongly or not at all, rather than that the connection ended.
func unserved(err error) bool {
	bad := new(badReply)
	return errors.As(err, &bad) || errors.Is(err, os.ErrDeadlineExceeded)
}
