package agent

import (
	"bufio"
	"bytes"
	"context"
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

// delayed starts a server that echoes and a relay in front of it. It returns the relay's address and a function that ends the
// relay.
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

// bubble waits by the clock of package synctest.
type bubble struct{}

func (bubble) wait(d time.Duration) error {
	time.Sleep(d)
	return nil
}

func TestRepliesAreDelayedWithoutWaitingForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const delay, connections = 20 * time.Millisecond, 50
		ctx, cancel := context.WithCancel(t.Context())
		d := &delayer{delay: delay, pieces: make(chan piece, delayedPieces)}
		var parts sync.WaitGroup
		parts.Go(func() { assert.NoError(t, d.release(ctx, bubble{})) })
		began := time.Now()
		arrived := make(chan time.Duration, connections)
		for range connections {
			server, relay := net.Pipe()
			due := make(chan []byte, 1)
			parts.Go(func() { d.read(ctx, relay, due, make(chan struct{}, 1)) })
			parts.Go(func() {
				_, err := io.WriteString(server, "reply")
				assert.NoError(t, err)
				assert.Equal(t, "reply", string(<-due))
				arrived <- time.Since(began)
				assert.NoError(t, server.Close())
			})
		}
		for range connections {
			assert.Equal(t, delay, <-arrived)
		}
		cancel()
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

func TestAConnectionWhoseServerHasClosedEndsWithRepliesInFlight(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	room, closed, done := make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	room <- struct{}{}
	close(closed)
	go func() {
		defer close(done)
		arrive(ctx, nil, make(chan []byte), room, closed)
	}()
	cancel()
	select {
	case <-done:
	case <-time.After(mctest.Patience):
		t.Fatal("it waits for replies that never arrive")
	}
}

func TestARelayWithoutAServerClosesItsConnections(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, nobody.Close())
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- ServeDelay(ctx, listener, nobody.Addr().String(), 0) }()
	conn, err := net.Dial("tcp", listener.Addr().String())
	require.NoError(t, err)
	_, err = conn.Read(make([]byte, 1))
	require.Error(t, err)
	cancel()
	require.NoError(t, <-ended)
}
