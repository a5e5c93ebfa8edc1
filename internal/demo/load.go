package demo

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"mcmw/internal/protocol"
	"mcmw/internal/stats"
)

// replyTimeout bounds the wait for a reply. mcmw's own timeout is much shorter.
const replyTimeout = 10 * time.Second

// load is a closed loop of clients: each sends a request when the previous one is answered. It is only for
// demonstration; measure with mcmwlab load.
type load struct {
	options *Options
	addr    string
	value   string
	stored  atomic.Int64 // keys stored so far

	registry *stats.Registry // requests as the clients saw them, except those that first stored the keys
	mu       sync.Mutex      // guards the fields below
	record   *stats.Worker
	failure  string // the reply to the first request that failed
}

func newLoad(o *Options, addr string) *load {
	l := &load{
		options: o, addr: addr, value: strings.Repeat("x", o.ValueSize),
		registry: stats.New(stats.Options{Workers: 1}),
	}
	l.record = l.registry.Worker(0)
	return l
}

// run connects the clients, stores every key once, calls begun, and sends requests until ctx is done or Duration has
// passed. It returns the time for which it sent requests.
func (l *load) run(ctx context.Context, begun func()) (elapsed time.Duration, err error) {
	clients := make([]*client, l.options.Clients)
	for i := range clients {
		c, err := net.Dial("tcp", l.addr)
		if err != nil {
			return 0, err
		}
		defer c.Close()
		clients[i] = &client{load: l, conn: c, replies: bufio.NewReader(c)}
	}
	err = forAll(clients, func(i int, c *client) error {
		for key := i + 1; key <= int(l.options.keys()) && ctx.Err() == nil; key += len(clients) {
			if _, err := c.set(key); err != nil {
				return err
			}
			l.stored.Add(1)
		}
		return nil
	})
	if err != nil || ctx.Err() != nil {
		return 0, err
	}
	if l.options.Duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, l.options.Duration)
		defer cancel()
	}
	begun()
	begin := time.Now()
	err = forAll(clients, func(_ int, c *client) error {
		for ctx.Err() == nil {
			if err := c.request(); err != nil {
				return err
			}
		}
		return nil
	})
	return time.Since(begin), err
}

// forAll calls f for all clients concurrently, and returns one of the errors.
func forAll(clients []*client, f func(i int, c *client) error) (err error) {
	errs := make(chan error, len(clients))
	for i, c := range clients {
		go func() { errs <- f(i, c) }()
	}
	for range clients {
		if e := <-errs; e != nil {
			err = e
		}
	}
	return err
}

// answered records a request that began at begin, a time of stats.Now in ns. text is its reply, or the last line of it.
func (l *load) answered(c protocol.Command, begin int64, keys, hits int, text []byte) {
	result := stats.ResultOK
	if bytes.HasPrefix(text, []byte("SERVER_ERROR")) {
		result = stats.ResultServerError
	}
	times := stats.Times{
		Created: begin, Enqueued: begin, Dequeued: begin, Sent: begin, Received: begin,
		Replied: stats.Now(),
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.record.Request(c, result, keys, hits, &times)
	if result == stats.ResultServerError && l.failure == "" {
		l.failure = strings.TrimSpace(string(text))
	}
}

// client is one connection of a load. It belongs to one goroutine.
type client struct {
	load    *load
	conn    net.Conn
	replies *bufio.Reader
	line    []byte // the request
}

// request sends a random request, a SET or a GET by the ratio, and reads its reply.
func (c *client) request() error {
	l, o := c.load, c.load.options
	begin := stats.Now()
	if rand.IntN(o.Ratio.Sets+o.Ratio.Gets) < o.Ratio.Sets {
		text, err := c.set(c.randomKey())
		if err == nil {
			l.answered(protocol.Set, begin, 1, 0, text)
		}
		return err
	}
	hits, text, err := c.get(o.keysPerGet())
	if err == nil {
		l.answered(protocol.Get, begin, o.keysPerGet(), hits, text)
	}
	return err
}

func (c *client) randomKey() int { return 1 + rand.IntN(int(c.load.options.keys())) }

// set stores the value under a key and returns the reply.
func (c *client) set(key int) (reply []byte, err error) {
	c.line = fmt.Appendf(c.line[:0], "set demo-%d 0 0 %d\r\n%s\r\n", key, len(c.load.value), c.load.value)
	if err := c.send(); err != nil {
		return nil, err
	}
	return c.replies.ReadSlice('\n')
}

// get requests n keys. hits is the number of values, last the line that ends the reply.
func (c *client) get(n int) (hits int, last []byte, err error) {
	c.line = append(c.line[:0], "get"...)
	for range n {
		c.line = fmt.Appendf(c.line, " demo-%d", c.randomKey())
	}
	c.line = append(c.line, "\r\n"...)
	if err := c.send(); err != nil {
		return 0, nil, err
	}
	for {
		line, err := c.replies.ReadSlice('\n')
		if err != nil || !bytes.HasPrefix(line, []byte("VALUE ")) {
			return hits, line, err
		}
		hits++
		size, err := strconv.Atoi(string(line[bytes.LastIndexByte(line, ' ')+1 : len(line)-2]))
		if err == nil {
			_, err = io.CopyN(io.Discard, c.replies, int64(size+2))
		}
		if err != nil {
			return hits, nil, err
		}
	}
}

func (c *client) send() error {
	if err := c.conn.SetDeadline(time.Now().Add(replyTimeout)); err != nil {
		return err
	}
	_, err := c.conn.Write(c.line)
	return err
}
