package history

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

// leaver is a server that ends its connections after some replies.
type leaver struct {
	after int                       // number of replies
	leave func(conn net.Conn) error // ends a connection
	mu    sync.Mutex
	items map[string]string // guarded by mu
	sets  map[string]int    // guarded by mu: how often each value was stored

	listener net.Listener // set by start
}

// start serves on a free port until the test ends.
func (l *leaver) start(t *testing.T) (addr string) {
	t.Helper()
	l.items, l.sets = map[string]string{}, map[string]int{}
	var err error
	l.listener, err = net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var serving sync.WaitGroup
	t.Cleanup(func() {
		l.listener.Close()
		serving.Wait()
	})
	serving.Go(func() {
		for {
			conn, err := l.listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { l.serve(conn) })
		}
	})
	return l.listener.Addr().String()
}

// serve answers a connection's requests until it must end, and then reads without answering.
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

// store reads a value of the given size and stores it. once: the value must not be sent again.
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
	flags := "" // those of a meta command that its reply repeats
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

func TestUnansweredRequestsAreRepeatedAfterAnOrderlyEndOfTheConnection(t *testing.T) {
	// How many connections end in this time depends on how busy the machine is.
	for duration, ended := 300*time.Millisecond, uint64(0); ended <= 4; duration *= 2 {
		require.Less(t, duration, 16*time.Second, "only %d connections ended", ended)
		l := &leaver{after: 30, leave: func(conn net.Conn) error { return conn.(*net.TCPConn).CloseWrite() }}
		v, err := Verify(context.Background(),
			Options{Addrs: []string{l.start(t)}, Clients: 4, Rate: 4000, Seed: 1}, duration)
		// Reading every key at the end takes more replies than a connection gives.
		require.ErrorContains(t, err, "reading every key once more")
		require.NoError(t, v.Broken(), "%v", v.Examples)
		assert.Equal(t, v.Reads.Sent+v.Writes.Sent, v.Reads.Succeeded+v.Writes.Succeeded)
		for value, n := range l.sets {
			require.Equal(t, 1, n, "%.40q was stored more than once", value)
		}
		ended = v.Ended
	}
}

func TestUnansweredRequestsAreLostIfTheConnectionIsReset(t *testing.T) {
	l := &leaver{after: 30, leave: faulty.Reset}
	v, _ := Verify(context.Background(),
		Options{Addrs: []string{l.start(t)}, Clients: 4, Rate: 4000, Seed: 1}, 300*time.Millisecond)
	require.ErrorContains(t, v.Broken(), "requests lost")
	assert.Zero(t, v.Ended)
	assert.Zero(t, v.Wrong+v.Stale)
}

func TestRefusedConnectionsAreCounted(t *testing.T) {
	l := &leaver{after: 30}
	l.leave = func(conn net.Conn) error {
		l.listener.Close()
		return conn.(*net.TCPConn).CloseWrite()
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	v, err := Verify(ctx, Options{Addrs: []string{l.start(t)}, Clients: 1, Rate: 1000, Seed: 1}, 0)
	require.Error(t, err)
	require.ErrorContains(t, v.Broken(), "connections refused")
	require.ErrorContains(t, v.Broken(), "requests lost")
}

func TestAServiceThatCannotBeReachedIsAnError(t *testing.T) {
	_, err := Verify(context.Background(), Options{Addrs: []string{"127.0.0.1:1"}, Clients: 1, Rate: 1}, 0)
	require.ErrorContains(t, err, "127.0.0.1:1")
	_, err = Verify(context.Background(), Options{Addrs: []string{"127.0.0.1:1"}, Clients: 1, Rate: 0}, 0)
	require.ErrorContains(t, err, "expected at least 1")
}

func TestALoadThatIsEndedBeforeItBeginsIsNoFailure(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	v, err := Verify(ctx, Options{Addrs: []string{(&leaver{after: 1000}).start(t)}, Clients: 1, Rate: 10}, 0)
	require.NoError(t, err)
	assert.NoError(t, v.Broken())
}
