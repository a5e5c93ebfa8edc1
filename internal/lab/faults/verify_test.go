package faults

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/faulty"
)

// leaver is a server whose connections end after some replies.
type leaver struct {
	after int                       // how many
	leave func(conn net.Conn) error // how
	mu    sync.Mutex
	items map[string]string // guarded by mu
	sets  map[string]int    // guarded by mu: how often each value was stored
}

// start serves on a free port until the test ends.
func (l *leaver) start(t *testing.T) (addr string) {
	t.Helper()
	l.items, l.sets = map[string]string{}, map[string]int{}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var serving sync.WaitGroup
	t.Cleanup(func() {
		listener.Close()
		serving.Wait()
	})
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { l.serve(conn) })
		}
	})
	return listener.Addr().String()
}

// serve answers a connection's requests until it is to end, and then reads on without doing anything.
func (l *leaver) serve(conn net.Conn) {
	defer conn.Close()
	r := bufio.NewReader(conn)
	for range l.after {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		reply, err := l.do(strings.Fields(line), r)
		if err != nil {
			return
		}
		if _, err := io.WriteString(conn, reply); err != nil {
			return
		}
	}
	if l.leave(conn) == nil {
		_, _ = io.Copy(io.Discard, r)
	}
}

// store reads a value of so many bytes and stores it. once: it must not be sent again.
func (l *leaver) store(key, size string, once bool, r io.Reader) error {
	n, err := strconv.Atoi(size)
	if err != nil {
		return err
	}
	value := make([]byte, n+2)
	if _, err := io.ReadFull(r, value); err != nil {
		return err
	}
	l.items[key] = string(value[:n])
	if once {
		l.sets[l.items[key]]++
	}
	return nil
}

func (l *leaver) do(words []string, r io.Reader) (reply string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	quiet := words[len(words)-1] == "q"
	flags := "" // what is shown of a meta command's own
	for _, word := range words[1:] {
		switch {
		case words[0][0] != 'm':
		case word[0] == 'O':
			flags += " " + word
		case word == "k":
			flags += " k" + words[1]
		}
	}
	switch words[0] {
	case "set":
		return "STORED\r\n", l.store(words[1], words[4], true, r)
	case "ms":
		reply, err = "HD"+flags+"\r\n", l.store(words[1], words[2], !quiet, r)
	case "delete":
		delete(l.items, words[1])
		return "DELETED\r\n", nil
	case "md":
		reply = "HD" + flags + "\r\n"
		delete(l.items, words[1])
	case "incr":
		return "NOT_FOUND\r\n", nil
	case "ma":
		return "VA 1" + flags + "\r\n1\r\n", nil
	case "mn":
		return "MN\r\n", nil
	case "mg":
		value, ok := l.items[words[1]]
		if ok {
			return fmt.Sprintf("VA %d f7%s\r\n%s\r\n", len(value), flags, value), nil
		}
		reply = "EN\r\n"
	default:
		for _, key := range words[1:] {
			if value, ok := l.items[key]; ok {
				reply += fmt.Sprintf("VALUE %s 7 %d\r\n%s\r\n", key, len(value), value)
			}
		}
		return reply + "END\r\n", nil
	}
	if quiet {
		reply = ""
	}
	return reply, err
}

func TestWhatIsNotAnsweredWhenAConnectionEndsInAnOrderlyWayIsSentAgain(t *testing.T) {
	l := &leaver{after: 30, leave: func(conn net.Conn) error { return conn.(*net.TCPConn).CloseWrite() }}
	v, err := Verify(context.Background(), VerifyOptions{Addrs: []string{l.start(t)}, Clients: 4, Rate: 4000, Duration: 300 * time.Millisecond, Seed: 1})
	// The reading of every key in the end needs more replies than a connection gives.
	require.ErrorContains(t, err, "reading every key once more")
	require.NoError(t, v.Broken(), "%v", v.Examples)
	assert.Greater(t, v.Ended, uint64(4))
	assert.Equal(t, v.Reads.Sent+v.Writes.Sent, v.Reads.Succeeded+v.Writes.Succeeded)
	for value, n := range l.sets {
		require.Equal(t, 1, n, "%.40q was stored more than once", value)
	}
}

func TestWhatIsNotAnsweredWhenAConnectionIsResetIsLost(t *testing.T) {
	l := &leaver{after: 30, leave: faulty.Reset}
	v, _ := Verify(context.Background(), VerifyOptions{Addrs: []string{l.start(t)}, Clients: 4, Rate: 4000, Duration: 300 * time.Millisecond, Seed: 1})
	require.ErrorContains(t, v.Broken(), "requests lost")
	assert.Zero(t, v.Ended)
	assert.Zero(t, v.Wrong+v.Stale)
}

func TestAConnectionThatIsRefusedIsCounted(t *testing.T) {
	l := &leaver{after: 30}
	addr := ""
	var once sync.Once
	gone := make(chan struct{})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr = listener.Addr().String()
	l.items, l.sets = map[string]string{}, map[string]int{}
	l.leave = func(conn net.Conn) error {
		once.Do(func() {
			listener.Close()
			close(gone)
		})
		return conn.(*net.TCPConn).CloseWrite()
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go l.serve(conn)
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	v, err := Verify(ctx, VerifyOptions{Addrs: []string{addr}, Clients: 1, Rate: 1000, Seed: 1})
	<-gone
	require.Error(t, err)
	require.ErrorContains(t, v.Broken(), "connections refused")
	require.ErrorContains(t, v.Broken(), "requests lost")
}

func TestAServiceThatNobodyReachesIsAnError(t *testing.T) {
	_, err := Verify(context.Background(), VerifyOptions{Addrs: []string{"127.0.0.1:1"}, Clients: 1, Rate: 1})
	require.ErrorContains(t, err, "127.0.0.1:1")
	_, err = Verify(context.Background(), VerifyOptions{Addrs: []string{"127.0.0.1:1"}, Clients: 1, Rate: 0})
	require.ErrorContains(t, err, "expected at least 1")
}

func TestALoadThatIsToldToEndBeforeItBeginsIsNoFailure(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	v, err := Verify(ctx, VerifyOptions{Addrs: []string{(&leaver{after: 1000}).start(t)}, Clients: 1, Rate: 10})
	require.NoError(t, err)
	assert.NoError(t, v.Broken())
}
