package worker_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
)

// What a server sends between rounds answers nobody: the connection is given up before another client's reply is read from it.
func TestAReplyTooManyThatComesLateIsNobodys(t *testing.T) {
	send, sent := make(chan struct{}), make(chan struct{})
	script := mctest.StartScript(t, func(p *mctest.Peer) {
		p.Answer(func(line string) string {
			switch line {
			case "version":
				return "VERSION 1\r\n"
			case "stats":
				return "STAT uptime 1\r\nEND\r\n"
			case "delete k":
				go func() {
					<-send
					p.Send("VALUE k 0 3\r\nbad\r\nEND\r\n")
					close(sent)
				}()
				return "DELETED\r\n"
			case "get k":
				return "VALUE k 0 4\r\ngood\r\nEND\r\n"
			}
			return ""
		})
	})
	m := mwtest.Start(t, middleware.Options{Servers: mwtest.Named(script.Addr()), Workers: 1})
	require.Equal(t, "DELETED\r\n", m.Dial(t).MustDo(t, "delete k\r\n"))
	other := m.Dial(t)
	require.Equal(t, "MN\r\n", other.MustDo(t, "mn\r\n")) // its connection is there
	close(send)
	<-sent
	require.Equal(t, "VALUE k 0 4\r\ngood\r\nEND\r\n", other.MustDo(t, "get k\r\n"))
}

// The first reply came before the request: the second STORED is of the server, and nobody knows what it stored.
func TestAWriteIsDoubtedIfTheServerThenSendsMoreThanItWasAskedFor(t *testing.T) {
	deleted := make(chan struct{})
	script := mctest.StartScript(t, func(p *mctest.Peer) {
		p.Answer(func(line string) string {
			switch line {
			case "version":
				return "VERSION 1\r\n"
			case "set k 0 0 1":
				p.Line()
				return "STORED\r\nSTORED\r\n"
			case "delete k":
				close(deleted)
				return "DELETED\r\n"
			case "mn":
				return "MN\r\n"
			}
			return "EN\r\n"
		})
	})
	m := mwtest.Start(t, middleware.Options{Servers: mwtest.Named(script.Addr()), Workers: 1})
	require.Equal(t, "STORED\r\n", m.Dial(t).MustDo(t, "set k 0 0 1\r\nx\r\n"))
	select {
	case <-deleted:
	case <-time.After(mctest.Patience):
		t.Fatal("the key is not deleted where nobody knows what it holds")
	}
}
