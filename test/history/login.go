package history

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"time"

	"mcmw/internal/protocol"
)

// The only user in scenarios with logins.
const (
	LoginUser     = "load"
	LoginPassword = "secret"
)

// LogIn logs in on conn. A memcached without passwords treats the login as a write.
func LogIn(conn net.Conn) error {
	if err := exchange(conn, protocol.AppendLogin(nil, LoginUser, LoginPassword), protocol.TextStored); err != nil {
		return err
	}
	return conn.SetDeadline(time.Time{})
}

// exchange sends a request and reads as many bytes as want has. If they differ from want, the error is a badReply.
func exchange(conn net.Conn, request []byte, want string) error {
	_ = conn.SetDeadline(time.Now().Add(AnswerWithin))
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

// Visit logs in on a new connection and sends a write.
func Visit(conn net.Conn) error {
	if err := LogIn(conn); err != nil {
		return fmt.Errorf("a login: %w", err)
	}
	if err := exchange(conn, []byte("set visitor 0 0 1\r\nx\r\n"), protocol.TextStored); err != nil {
		return fmt.Errorf("a set after a login: %w", err)
	}
	return nil
}

// Unserved reports whether err means that the service answered wrongly or not at all, rather than that the connection
// ended.
func Unserved(err error) bool {
	bad := new(badReply)
	return errors.As(err, &bad) || errors.Is(err, os.ErrDeadlineExceeded)
}
