package agent

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
)

// delayed starts a server that echoes and a relay in front of it. It returns the relay's address and a function that
// ends the relay.
func delayed(t *testing.T, delay time.Duration) (address string, stop func() error) {
	t.Helper()
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		return l
	}
	server, relay := listen(), listen()
	t.Cleanup(func() { server.Close() })
	go func() {
		for {
			conn, err := server.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- ServeDelay(ctx, relay, server.Addr().String(), delay) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	t.Cleanup(func() { assert.NoError(t, stop()) })
	return relay.Addr().String(), stop
}

func TestNoReplyArrivesBeforeItsDelay(t *testing.T) {
	const delay, clients = 20 * time.Millisecond, 50
	address, _ := delayed(t, delay)
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			conn, err := net.Dial("tcp", address)
			if !assert.NoError(t, err) {
				return
			}
			defer conn.Close()
			lines := bufio.NewReader(conn)
			for j := range 3 {
				want := fmt.Sprintf("%d %d\n", i, j)
				sent := time.Now()
				_, err := io.WriteString(conn, want)
				assert.NoError(t, err)
				got, err := lines.ReadString('\n')
				assert.NoError(t, err)
				assert.Equal(t, want, got)
				assert.GreaterOrEqual(t, time.Since(sent), delay)
			}
		})
	}
	all.Wait()
}

func TestRepliesAreDelayedWithoutWaitingForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const delay, replies = 20 * time.Millisecond, 50
		server, fromServer := net.Pipe()
		toClient, client := net.Pipe()
		pieces := make(chan piece, replies)
		var parts sync.WaitGroup
		parts.Go(func() {
			defer close(pieces)
			readPieces(t.Context(), fromServer, delay, pieces)
		})
		parts.Go(func() {
			writePieces(toClient, pieces, func(d time.Duration) error {
				time.Sleep(d) // by the clock of package synctest
				return nil
			})
		})
		parts.Go(func() {
			for range replies {
				_, err := io.WriteString(server, "reply")
				assert.NoError(t, err)
				time.Sleep(time.Millisecond) // by that clock: the time between two replies
			}
			assert.NoError(t, server.Close())
		})
		began := time.Now()
		reply := make([]byte, len("reply"))
		for i := range replies {
			_, err := io.ReadFull(client, reply)
			require.NoError(t, err)
			assert.Equal(t, time.Duration(i)*time.Millisecond+delay, time.Since(began))
		}
		parts.Wait()
	})
}

func TestADelayedReplyIsCompleteAndArrivesAfterTheServerHasClosed(t *testing.T) {
	address, _ := delayed(t, time.Millisecond)
	conn, err := net.Dial("tcp", address)
	require.NoError(t, err)
	defer conn.Close()
	sent := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	go func() {
		_, _ = conn.Write(sent)
		_ = conn.(*net.TCPConn).CloseWrite() // the server closes when it has echoed all
	}()
	got, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.True(t, bytes.Equal(sent, got))
}

func TestARelayEndsWithRepliesInFlight(t *testing.T) {
	address, stop := delayed(t, time.Hour)
	conn, err := net.Dial("tcp", address)
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, "never echoed in time\n")
	require.NoError(t, err)
	require.NoError(t, stop())
	_, err = io.ReadAll(conn)
	if err != nil {
		require.ErrorContains(t, err, "reset")
	}
}

// endsBeforeAccept is a listener that accepts a connection when it is told to end.
type endsBeforeAccept struct {
	net.Listener
	end  func()
	conn net.Conn
}

func (l endsBeforeAccept) Accept() (net.Conn, error) {
	l.end()
	return l.conn, nil
}

func TestAConnectionAcceptedAtTheEndIsClosed(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	ctx, cancel := context.WithCancel(t.Context())
	client, server := net.Pipe()
	require.NoError(t, ServeDelay(ctx, endsBeforeAccept{listener, cancel, server}, "127.0.0.1:1", 0))
	_, err = server.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.ErrClosedPipe)
	require.NoError(t, client.Close())
}

func TestARelayWithoutAServerClosesItsConnections(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- ServeDelay(ctx, listener, mctest.Refusing(t), 0) }()
	conn, err := net.Dial("tcp", listener.Addr().String())
	require.NoError(t, err)
	_, err = conn.Read(make([]byte, 1))
	require.Error(t, err)
	cancel()
	require.NoError(t, <-ended)
}

// failsAfter is a listener that accepts one connection.
type failsAfter struct {
	net.Listener
	conns chan net.Conn
}

func (l failsAfter) Accept() (net.Conn, error) {
	conn, ok := <-l.conns
	if !ok {
		return nil, errors.New("too many open files")
	}
	return conn, nil
}

func TestARelayThatCannotAcceptEndsItsConnectionsAndSaysWhy(t *testing.T) {
	address, stop := delayed(t, 0) // a server for the relay under test
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	client, server := net.Pipe()
	conns := make(chan net.Conn, 1)
	ended := make(chan error, 1)
	go func() { ended <- ServeDelay(t.Context(), failsAfter{listener, conns}, address, 0) }()
	conns <- server
	_, err = client.Write([]byte("x"))
	require.NoError(t, err)
	_, err = io.ReadFull(client, make([]byte, 1))
	require.NoError(t, err)
	close(conns)
	require.ErrorContains(t, <-ended, "too many open files")
	_, err = client.Read(make([]byte, 1))
	require.Error(t, err, "the connection has ended")
	require.NoError(t, stop())
}
