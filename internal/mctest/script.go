package mctest

import (
	"bufio"
	"io"
	"net"
	"strings"
	"testing"

	"mcmw/internal/faulty"
)

// Script is a server whose replies the test writes byte by byte. It ends with the test, as do its connections.
type Script struct{ *faulty.Server }

// Peer is a connection that a Script accepted. It belongs to the goroutine that serves it.
type Peer struct {
	// N is the number of the connection in the order of acceptance, from 0.
	N int

	t    testing.TB
	conn net.Conn
	r    *bufio.Reader
}

// StartScript listens on a free loopback port and runs serve for every connection, each in its own goroutine. The
// connection is closed when serve returns.
func StartScript(t testing.TB, serve func(p *Peer)) *Script {
	t.Helper()
	server, err := faulty.Start(func(n int, conn net.Conn) {
		serve(&Peer{N: n, t: t, conn: conn, r: bufio.NewReader(conn)})
	})
	if err != nil {
		t.Fatalf("scripted server: %v", err)
	}
	t.Cleanup(server.Stop)
	return &Script{server}
}

// Expect reads len(want) bytes and reports whether they equal want. Other bytes fail the test; an end of the connection
// before the first byte does not.
func (p *Peer) Expect(want string) bool {
	got := make([]byte, len(want))
	n, err := io.ReadFull(p.r, got)
	if n == 0 && err != nil {
		return false
	}
	if string(got[:n]) != want {
		p.t.Errorf("scripted server, connection %d: received %q, expected %q", p.N, shorten(string(got[:n])),
			shorten(want))
		return false
	}
	return true
}

// Line reads one line without its CR LF; ok is false if the other side has closed.
func (p *Peer) Line() (line string, ok bool) {
	line, err := p.r.ReadString('\n')
	return strings.TrimRight(line, "\r\n"), err == nil
}

// Reader returns the reader of the peer's bytes.
func (p *Peer) Reader() *bufio.Reader { return p.r }

// Send writes bytes. It ignores that the other side has closed the connection: the next read reports it.
func (p *Peer) Send(bytes string) { _, _ = io.WriteString(p.conn, bytes) }

// SendBytewise writes bytes one at a time.
func (p *Peer) SendBytewise(bytes string) {
	for i := range len(bytes) {
		if _, err := p.conn.Write([]byte{bytes[i]}); err != nil {
			return
		}
	}
}

// Flood writes bytes repeatedly until the other side closes.
func (p *Peer) Flood(bytes string) {
	for {
		if _, err := io.WriteString(p.conn, bytes); err != nil {
			return
		}
	}
}

// Stall reads and ignores everything until the other side closes, like a server that accepts and never answers.
func (p *Peer) Stall() { _, _ = io.Copy(io.Discard, p.r) }

// Reset ends the connection with a reset instead of an orderly end.
func (p *Peer) Reset() { _ = faulty.Reset(p.conn) }

// Answer reads lines until the other side closes, and sends the result of reply for each; "" sends nothing. Data blocks
// are passed to reply as separate lines. Lines that Known answers are not passed.
func (p *Peer) Answer(reply func(line string) string) {
	for {
		line, ok := p.Line()
		if !ok {
			return
		}
		if p.Known(line) {
			continue
		}
		if answer := reply(line); answer != "" {
			p.Send(answer)
		}
	}
}

// Known answers the requests that the middleware makes on its own: for the version, for the records of earlier
// middlewares (there are none), and those that store records (they are not kept). It returns false if line is another
// request.
func (p *Peer) Known(line string) bool {
	const key = "bWNtdyB" // the beginning of the middlewares' own keys, in base64
	switch {
	case line == "version":
		p.Send("VERSION scripted\r\n")
	case strings.HasPrefix(line, "mg "+key):
		p.Send("EN\r\n")
	case strings.HasPrefix(line, "ms "+key):
		p.Line()
		p.Send("HD\r\n")
	case strings.HasPrefix(line, "md "+key):
		p.Send("HD\r\n")
	default:
		return false
	}
	return true
}
