package faulty

import (
	"bufio"
	"bytes"
	"cmp"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Liar is a proxy in front of a real memcached that changes some of its replies. It handles requests of the text
// protocol one by one; quiet ones must be followed by an mn. Replies to version and stats are always true, so that a
// server whose lie was detected is used again, and lies again.
type Liar struct {
	*Server
	target string
	lie    atomic.Pointer[Lie]
}

// lieEvery is the number of requests of a connection for each lie.
const lieEvery = 16

// Lie is a kind of wrong answer.
type Lie struct {
	Name, Title string
	// tell answers in place of the server. If it returns false, the connection ends.
	tell func(x *exchange) bool
}

// exchange is a request with its reply.
type exchange struct {
	client  net.Conn
	words   []string                       // of the request's line
	reply   []byte                         // memcached's reply
	other   []byte                         // memcached's reply to an earlier request with the same command
	more    func() (reply []byte, ok bool) // handles another request and returns memcached's reply
	waiting bool                           // another request has come
}

// key returns the request's key.
func (x *exchange) key() string {
	if len(x.words) < 2 {
		return "k"
	}
	return x.words[1]
}

func (x *exchange) send(b []byte) bool {
	_, err := x.client.Write(b)
	return err == nil
}

func (x *exchange) sendText(text string) bool { return x.send([]byte(text)) }

// endless is the number of bytes after which a reply without an end is given up.
const endless = 1 << 30

// flood sends b repeatedly, until the client is gone or endless bytes are sent. It returns false.
func (x *exchange) flood(b []byte) bool {
	b = bytes.Repeat(b, 1+(64<<10)/len(b))
	for sent := 0; sent < endless; sent += len(b) {
		if !x.send(b) {
			return false
		}
	}
	return false
}

// usual returns a valid reply without a value to the request.
func (x *exchange) usual() string {
	return cmp.Or(map[string]string{
		"get": "END\r\n", "gets": "END\r\n", "gat": "END\r\n", "gats": "END\r\n",
		"set": "STORED\r\n", "add": "STORED\r\n", "cas": "STORED\r\n", "delete": "DELETED\r\n",
		"mg": "EN\r\n", "ms": "HD\r\n", "md": "HD\r\n", "ma": "HD\r\n", "mn": "MN\r\n",
	}[x.words[0]], "NOT_FOUND\r\n")
}

// unusual returns a reply of a kind that the request never gets.
func (x *exchange) unusual() string {
	switch x.words[0] {
	case "get", "gets", "gat", "gats", "mn", "mg":
		return "STORED\r\n"
	case "ms", "md":
		return "VA 1\r\nx\r\n"
	}
	return "END\r\n"
}

// Lies holds all kinds of lies. A title continues "a server answers".
var Lies = []Lie{
	{"extra", "with one reply too many", func(x *exchange) bool { return x.send(append(x.reply, x.usual()...)) }},
	{"double", "with every reply twice", func(x *exchange) bool { return x.send(append(x.reply, x.reply...)) }},
	{"early", "before it is asked", func(x *exchange) bool {
		// Sent separately: together with the reply it would be detected.
		sent := x.send(x.reply)
		time.Sleep(time.Millisecond)
		return sent && x.sendText(x.usual())
	}},
	{"kind", "with a reply of another kind", func(x *exchange) bool { return x.sendText(x.unusual()) }},
	{"value", "a write with a value", func(x *exchange) bool {
		if strings.HasPrefix(x.words[0], "g") {
			return x.send(x.reply) // an invented value cannot be distinguished from the true one
		}
		if len(x.words[0]) == 2 {
			return x.sendText("VA 3 k" + x.key() + "\r\nlie\r\n")
		}
		return x.sendText("VALUE " + x.key() + " 7 3\r\nlie\r\nEND\r\n")
	}},
	{"key", "with the value of a key that was not asked for", func(x *exchange) bool {
		return x.send(bytes.ReplaceAll(x.reply, []byte(x.key()), []byte(x.key()[:len(x.key())-1]+"~")))
	}},
	{"other", "with the reply to another request", func(x *exchange) bool {
		if x.other == nil {
			return x.send(x.reply)
		}
		return x.send(x.other)
	}},
	{"swap", "two requests in the wrong order", func(x *exchange) bool {
		if !x.waiting {
			return x.send(x.reply)
		}
		next, ok := x.more()
		return ok && x.send(append(next, x.reply...))
	}},
	{"size", "with the wrong size of a value", func(x *exchange) bool {
		head, rest, _ := strings.Cut(string(x.reply), "\r\n")
		words := strings.Fields(head)
		at := map[string]int{"VALUE": 3, "VA": 1}[words[0]]
		if at == 0 {
			return x.send(x.reply)
		}
		size, _ := strconv.Atoi(words[at])
		words[at] = strconv.Itoa(size + 1)
		return x.sendText(strings.Join(words, " ") + "\r\n" + rest)
	}},
	{"mn", "with an MN too many", func(x *exchange) bool { return x.send(append(x.reply, "MN\r\n"...)) }},
	{"cut", "with a part of a reply", func(x *exchange) bool { return x.send(x.reply[:len(x.reply)/2]) }},
	{"close", "with a part of a reply, and the connection's end", func(x *exchange) bool {
		x.send(x.reply[:len(x.reply)/2])
		return false
	}},
	{"garbage", "with random bytes", func(x *exchange) bool {
		b := make([]byte, 4<<10)
		for i := range b {
			b[i] = byte(rand.Uint32())
		}
		return x.send(b)
	}},
	{"late", "after a second and a half", func(x *exchange) bool {
		time.Sleep(1500 * time.Millisecond)
		return x.send(x.reply)
	}},
	{"drip", "byte by byte, 20 in a second", func(x *exchange) bool {
		for i := range x.reply {
			if !x.send(x.reply[i : i+1]) {
				return false
			}
			time.Sleep(50 * time.Millisecond)
		}
		return true
	}},
	{"line", "with a line that does not end", func(x *exchange) bool { return x.flood([]byte("VALUE")) }},
	{"list", "with a list that does not end", func(x *exchange) bool {
		if len(x.words[0]) == 2 {
			return x.flood([]byte("VA 3 k" + x.key() + "\r\nlie\r\n"))
		}
		return x.flood([]byte("VALUE " + x.key() + " 7 3\r\nlie\r\n"))
	}},
}

// StartLiar puts a Liar in front of the memcached at target, "host:port", which may be restarted. At first the Liar
// tells the truth.
func StartLiar(target string) (*Liar, error) {
	l := &Liar{target: target}
	server, err := Start(func(_ int, conn net.Conn) { l.serve(conn) })
	if err != nil {
		return nil, err
	}
	l.Server = server
	return l, nil
}

// Tell makes every connection tell this lie from now on; nil is the truth.
func (l *Liar) Tell(lie *Lie) { l.lie.Store(lie) }

func (l *Liar) serve(client net.Conn) {
	server, err := net.DialTimeout("tcp", l.target, dialTimeout)
	if err != nil {
		_ = Reset(client)
		return
	}
	defer server.Close()
	requests, replies := bufio.NewReaderSize(client, 64<<10), bufio.NewReaderSize(server, 64<<10)
	earlier := map[string][]byte{} // the last reply to each command
	ask := func() (words []string, reply []byte, ok bool) {
		for {
			request, words, err := readRequest(requests)
			if err != nil {
				return nil, nil, false
			}
			if _, err := server.Write(request); err != nil {
				return nil, nil, false
			}
			if last := words[len(words)-1]; last == "noreply" ||
				(len(words[0]) == 2 && words[0] != "mn" && slices.Contains(words[1:], "q")) {
				continue // its reply, if there is one, comes before the reply to the mn that follows
			}
			reply, err := readReply(replies, words)
			return words, reply, err == nil
		}
	}
	for n := 1; ; n++ {
		words, reply, ok := ask()
		if !ok {
			return
		}
		command := words[0]
		lie := l.lie.Load()
		if lie == nil || n%lieEvery != 0 || command == "version" || command == "stats" {
			earlier[command] = reply
			if _, err := client.Write(reply); err != nil {
				return
			}
			continue
		}
		x := &exchange{
			client: client, words: words, reply: reply, other: earlier[command], waiting: requests.Buffered() > 0,
			more: func() ([]byte, bool) {
				_, next, ok := ask()
				return next, ok
			},
		}
		if !lie.tell(x) {
			return
		}
	}
}

// readRequest reads a request with its value.
func readRequest(r *bufio.Reader) (request []byte, words []string, err error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return nil, nil, err
	}
	request, words = []byte(line), strings.Fields(line)
	if len(words) == 0 {
		return request, []string{"?"}, nil
	}
	at := map[string]int{"set": 4, "add": 4, "replace": 4, "append": 4, "prepend": 4, "cas": 4, "ms": 2}[words[0]]
	if at == 0 || at >= len(words) {
		return request, words, nil
	}
	request, err = appendData(request, r, words[at])
	return request, words, err
}

// appendData appends a data block of the given size, and its line end. If size is no number, it appends nothing.
func appendData(b []byte, r *bufio.Reader, size string) ([]byte, error) {
	n, err := strconv.Atoi(size)
	if err != nil {
		return b, nil
	}
	data := make([]byte, n+2)
	_, err = io.ReadFull(r, data)
	return append(b, data...), err
}

// readReply reads the whole reply to a request.
func readReply(r *bufio.Reader, request []string) (reply []byte, err error) {
	ends := map[string]string{
		"get": "END", "gets": "END", "gat": "END", "gats": "END", "stats": "END",
		"mn": "MN",
	}[request[0]]
	if len(request) > 1 && request[1] == "metadump" {
		ends = "END"
	}
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return nil, err
		}
		reply = append(reply, line...)
		words := strings.Fields(line)
		if len(words) == 0 {
			words = []string{""}
		}
		switch {
		case words[0] == "VALUE" && len(words) > 3:
			reply, err = appendData(reply, r, words[3])
		case words[0] == "VA" && len(words) > 1:
			reply, err = appendData(reply, r, words[1])
		}
		isError := words[0] == "ERROR" || words[0] == "CLIENT_ERROR" || words[0] == "SERVER_ERROR"
		if err != nil || ends == "" || words[0] == ends || (isError && ends == "END") ||
			(ends == "END" && (words[0] == "RESET" || words[0] == "OK" || words[0] == "BUSY")) {
			return reply, err
		}
	}
}
