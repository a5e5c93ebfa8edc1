//go:build ignore

// floor LISTEN SERVER... is the least that a proxy of mcmw's shape can do, as a measure for mcmw: a goroutine for each
// client reads and pushes what one read brought onto a buffered channel; a worker, which owns one connection to each
// server, takes what waits there as a round, writes it with one write to each server, and what it reads from a server
// with one write to each client. It has no features: the n-th client uses server n modulo the number of servers,
// whatever the keys, and a broken line ends the program. It is never shipped: `mcmwlab bench` compiles it.
package main

import (
	"bytes"
	"log"
	"net"
	"os"
	"strconv"
)

const buffered, round, bufferSize = 1024, 128, 1 << 17

// burst is what one read of a client brought: complete requests.
type burst struct {
	client   net.Conn
	server   int
	requests int
	text     []byte
	answered chan struct{} // the client's reader may use text again
}

// unit returns the length of the first line in b, with the data block whose size is its last number if it begins with
// word; 0 if it is not complete.
func unit(b []byte, word string) int {
	end := bytes.IndexByte(b, '\n')
	if end < 0 {
		return 0
	}
	length := end + 1
	if len(b) > len(word) && string(b[:len(word)]) == word {
		line := bytes.TrimSuffix(b[:end], []byte("\r"))
		size, err := strconv.Atoi(string(line[bytes.LastIndexByte(line, ' ')+1:]))
		need(err)
		length += size + 2
	}
	if length > len(b) {
		return 0
	}
	return length
}

func need(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// read serves client, which uses server.
func read(client net.Conn, server int, queue chan<- *burst) {
	in, have := make([]byte, bufferSize), 0
	b := &burst{client: client, server: server, answered: make(chan struct{}, 1)}
	for {
		n, err := client.Read(in[have:])
		if err != nil {
			client.Close()
			return
		}
		have += n
		whole := 0
		b.requests = 0
		for length := unit(in[:have], "set "); length > 0; length = unit(in[whole:have], "set ") {
			whole += length
			b.requests++
		}
		if b.requests == 0 {
			continue
		}
		b.text = in[:whole]
		queue <- b
		<-b.answered
		have = copy(in, in[whole:have])
	}
}

// server is the worker's connection to one.
type server struct {
	conn    net.Conn
	out     []byte
	in      []byte
	waiting []*burst // in the order of their requests
}

// reply reads until all that wait have their replies.
func (s *server) reply() {
	have := 0
	for first := 0; first < len(s.waiting); {
		n, err := s.conn.Read(s.in[have:])
		need(err)
		have += n
		at, sent, replied := 0, 0, 0
		for length := unit(s.in[:have], "VALUE "); length > 0; length = unit(s.in[at:have], "VALUE ") {
			last := s.in[at] != 'V'
			if at += length; !last {
				continue // END follows
			}
			replied = at
			b := s.waiting[first]
			if b.requests--; b.requests > 0 {
				continue
			}
			b.client.Write(s.in[sent:replied])
			b.answered <- struct{}{}
			sent = replied
			first++
		}
		if replied > sent { // a part of the replies to a burst
			s.waiting[first].client.Write(s.in[sent:replied])
		}
		have = copy(s.in, s.in[replied:have])
	}
	s.waiting = s.waiting[:0]
}

func work(servers []*server, queue <-chan *burst) {
	for b := range queue {
		for taken := 1; ; taken++ {
			s := servers[b.server]
			s.out, s.waiting = append(s.out, b.text...), append(s.waiting, b)
			if taken == round || len(queue) == 0 {
				break
			}
			b = <-queue
		}
		for _, s := range servers {
			if len(s.out) > 0 {
				_, err := s.conn.Write(s.out)
				need(err)
				s.out = s.out[:0]
			}
		}
		for _, s := range servers {
			s.reply()
		}
	}
}

func main() {
	var servers []*server
	for _, addr := range os.Args[2:] {
		conn, err := net.Dial("tcp", addr)
		need(err)
		servers = append(servers, &server{conn: conn, in: make([]byte, 32*bufferSize)})
	}
	listener, err := net.Listen("tcp", os.Args[1])
	need(err)
	queue := make(chan *burst, buffered)
	go work(servers, queue)
	for n := 0; ; n++ {
		client, err := listener.Accept()
		need(err)
		go read(client, n%len(servers), queue)
	}
}
