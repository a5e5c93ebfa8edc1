package mctest

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"mcmw/internal/faulty"
)

// Patience bounds every wait of a test, and the middleware's timeouts in tests that are not about time. It only turns a
// hang into a failure, so it is long: the machine may be busy.
const Patience = 5 * time.Minute

// Tick is the time between two checks of a condition that a test waits for. Reading all counters takes a millisecond
// under the race detector.
const Tick = 5 * time.Millisecond

// Client is one raw client connection. One goroutine may write while another reads.
type Client struct {
	// Conn is the connection itself, for example for setting its options.
	Conn net.Conn
	// Timeout bounds every read and every write. Dial sets it to Patience.
	Timeout time.Duration

	r *bufio.Reader
}

// Item is one VALUE of a reply.
type Item struct {
	Key   string
	Flags string
	Value string
	Cas   string // "" for get and gat
}

// Network splits an address in the form of the middleware's options, "host:port" or "unix:/path", for net.Dial.
func Network(addr string) (network, address string) {
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		return "unix", path
	}
	return "tcp", addr
}

// Dial connects to addr, "host:port" or "unix:/path".
func Dial(addr string) (*Client, error) {
	network, address := Network(addr)
	conn, err := net.DialTimeout(network, address, Patience)
	if err != nil {
		return nil, err
	}
	return NewClient(conn), nil
}

// NewClient returns a client that uses an open connection.
func NewClient(conn net.Conn) *Client {
	return &Client{Conn: conn, Timeout: Patience, r: bufio.NewReader(conn)}
}

// MustDial is Dial, but fails the test if it cannot connect. The connection is closed when the test ends.
func MustDial(t testing.TB, addr string) *Client {
	t.Helper()
	c, err := Dial(addr)
	if err != nil {
		t.Fatalf("connecting to %s: %v", addr, err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// DialTLS is Dial with TLS.
func DialTLS(addr string, config *tls.Config) (*Client, error) {
	network, address := Network(addr)
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: Patience}, network, address, config)
	if err != nil {
		return nil, err
	}
	return NewClient(conn), nil
}

// MustDialTLS is MustDial with TLS.
func MustDialTLS(t testing.TB, addr string, config *tls.Config) *Client {
	t.Helper()
	c, err := DialTLS(addr, config)
	if err != nil {
		t.Fatalf("connecting to %s with TLS: %v", addr, err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// Authenticate logs in, as memcached's --auth-file requires.
func (c *Client) Authenticate(user, password string) error {
	text := user + " " + password
	reply, err := c.Do(fmt.Sprintf("set login 0 0 %d\r\n%s\r\n", len(text), text))
	if err == nil && reply != "STORED\r\n" {
		err = fmt.Errorf("unexpected reply to authentication: %q", reply)
	}
	return err
}

// Close closes the connection.
func (c *Client) Close() error { return c.Conn.Close() }

// CloseWrite half-closes the connection: no more requests follow, but replies can still be read.
func (c *Client) CloseWrite() error {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok {
		return fmt.Errorf("a %T cannot be closed for writing only", c.Conn)
	}
	return half.CloseWrite()
}

// Reset closes the connection so that the other side sees a reset instead of an orderly end.
func (c *Client) Reset() error { return faulty.Reset(c.Conn) }

// Send writes p.
func (c *Client) Send(p []byte) error {
	if err := c.Conn.SetWriteDeadline(time.Now().Add(c.Timeout)); err != nil {
		return err
	}
	_, err := c.Conn.Write(p)
	return err
}

// Do sends a command and returns the one reply to it, raw.
func (c *Client) Do(command string) (string, error) {
	if err := c.Send([]byte(command)); err != nil {
		return "", err
	}
	return c.Reply()
}

// MustDo is Do, but fails the test on an error.
func (c *Client) MustDo(t testing.TB, command string) string {
	t.Helper()
	reply, err := c.Do(command)
	if err != nil {
		t.Fatalf("%s: after %q: %v", shorten(command), shorten(reply), err)
	}
	return reply
}

// MustReply is Reply, but fails the test on an error.
func (c *Client) MustReply(t testing.TB) string {
	t.Helper()
	reply, err := c.Reply()
	if err != nil {
		t.Fatalf("reading a reply, after %q: %v", shorten(reply), err)
	}
	return reply
}

// Reply reads exactly one reply of any kind and returns its bytes: a line; a VALUE or STAT list with its END; a meta
// value with its data. An error line ends a list. With an error it returns the part of the reply that it had read.
func (c *Client) Reply() (string, error) {
	if err := c.Conn.SetReadDeadline(time.Now().Add(c.Timeout)); err != nil {
		return "", err
	}
	var reply bytes.Buffer
	for {
		line, err := c.r.ReadSlice('\n')
		reply.Write(line)
		if err != nil {
			return reply.String(), err
		}
		more := bytes.HasPrefix(line, []byte("VALUE ")) || bytes.HasPrefix(line, []byte("STAT "))
		block, err := blockLength(line)
		if err != nil {
			return reply.String(), err
		}
		if block >= 0 {
			if _, err := io.CopyN(&reply, c.r, int64(block)+2); err != nil {
				return reply.String(), err
			}
			if !bytes.HasSuffix(reply.Bytes(), []byte("\r\n")) {
				return reply.String(), fmt.Errorf("a value of %d bytes is not followed by CR LF", block)
			}
		}
		if !more {
			return reply.String(), nil
		}
	}
}

// Line reads one line and returns it without its CR LF.
func (c *Client) Line() (string, error) {
	if err := c.Conn.SetReadDeadline(time.Now().Add(c.Timeout)); err != nil {
		return "", err
	}
	line, err := c.r.ReadString('\n')
	return strings.TrimSuffix(line, "\r\n"), err
}

// Rest reads until the other side closes, returns the bytes read, and closes the connection. A reset counts as an end.
func (c *Client) Rest() (string, error) {
	defer c.Conn.Close()
	if err := c.Conn.SetReadDeadline(time.Now().Add(c.Timeout)); err != nil {
		return "", err
	}
	rest, err := io.ReadAll(c.r)
	if errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		err = nil
	}
	return string(rest), err
}

// blockLength returns the length of the data block that follows a reply line, -1 for none.
func blockLength(line []byte) (int, error) {
	var field int
	switch {
	case bytes.HasPrefix(line, []byte("VALUE ")):
		field = 3
	case bytes.HasPrefix(line, []byte("VA ")):
		field = 1
	default:
		return -1, nil
	}
	fields := strings.Fields(string(line))
	if len(fields) <= field {
		return 0, fmt.Errorf("reply line %q has no length", shorten(string(line)))
	}
	n, err := strconv.Atoi(fields[field])
	if err != nil || n < 0 {
		return 0, fmt.Errorf("reply line %q: %q is not the length of a value", shorten(string(line)), fields[field])
	}
	return n, nil
}

// ParseValues parses the reply to a retrieval. It accepts only well-formed VALUE items closed by END.
func ParseValues(reply string) ([]Item, error) {
	var items []Item
	rest := reply
	for {
		line, after, ok := strings.Cut(rest, "\r\n")
		if !ok {
			return items, fmt.Errorf("no line end in %q", shorten(rest))
		}
		if line == "END" {
			if after != "" {
				return items, fmt.Errorf("%q follows END", shorten(after))
			}
			return items, nil
		}
		fields := strings.Split(line, " ")
		if len(fields) < 4 || len(fields) > 5 || fields[0] != "VALUE" {
			return items, fmt.Errorf("%q is neither VALUE key flags length [cas] nor END", shorten(line))
		}
		n, err := strconv.Atoi(fields[3])
		if err != nil || n < 0 || len(after) < n+2 || after[n:n+2] != "\r\n" {
			return items, fmt.Errorf("%q is not followed by that many bytes and CR LF", shorten(line))
		}
		item := Item{Key: fields[1], Flags: fields[2], Value: after[:n]}
		if len(fields) == 5 {
			item.Cas = fields[4]
		}
		items = append(items, item)
		rest = after[n+2:]
	}
}

// shorten cuts long texts in a test's message.
func shorten(s string) string {
	const most = 200
	if len(s) <= most {
		return s
	}
	return fmt.Sprintf("%s... (%d bytes)", s[:most], len(s))
}
