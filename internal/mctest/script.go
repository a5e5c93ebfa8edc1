package mctest

import (
	"bufio"
	"io"
	"net"
	"strings"
	"testing"

	"mcmw/internal/faulty"
)

// Script is a server whose every byte the test writes. It ends with the test, together with its connections.
type Script struct{ *faulty.Server }

// Peer is one connection accepted by a Script. It belongs to the goroutine that serves it.
type Peer struct {
	// N counts the connections of the script in the order of their acceptance, from 0.
	N int

	t    testing.TB
	conn net.Conn
	r    *bufio.Reader
}

// StartScript listens on a free loopback port and runs serve for every connection, each in a goroutine of its own. The
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

// Expect reads len(want) bytes and reports whether they equal want. Anything else fails the test, except that
// the other side closed before the first byte.
func (p *Peer) Expect(want string) bool {
	got := make([]byte, len(want))
	n, err := io.ReadFull(p.r, got)
	if n == 0 && err != nil {
		return false
	}
	if string(got[:n]) != want {
		p.t.Errorf("scripted server, connection %d: received %q, expected %q", p.N, shorten(string(got[:n])), shorten(want))
		return false
	}
	return true
}

// Line reads one line, without its CR LF; ok is false when the other side has closed.
func (p *Peer) Line() (line string, ok bool) {
	line, err := p.r.ReadString('\n')
	return strings.TrimRight(line, "\r\n"), err == nil
}

// Reader returns what the peer's bytes are read from.
func (p *Peer) Reader() *bufio.Reader { return p.r }

// Send writes bytes. A connection closed by the other side is no failure here: the next read reports it.
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

// Stall reads and ignores everything until the other side closes: a server that accepts and never answers.
func (p *Peer) Stall() { _, _ = io.Copy(io.Discard, p.r) }

// Reset ends the connection with a reset instead of an orderly end.
func (p *Peer) Reset() { _ = faulty.Reset(p.conn) }

// Answer reads command lines until the other side closes and sends what reply returns for each. Data blocks are passed as
// lines of their own: a reply of "" sends nothing. Lines that Known answers are not passed to reply.
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

// Known answers the requests that a middleware makes itself: for the version and for the records of earlier ones, of which
// there are none; and those that put records, which are not kept. False: line is another request.
func (p *Peer) Known(line string) bool {
	const key = "bWNtdyB" // how the keys of middlewares begin, in base64
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
