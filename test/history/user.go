package history

import (
	"bufio"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"time"
)

// user is a client with connections to every address. It sends one request at a time, over any of them.
type user struct {
	*shared
	rng   *rand.Rand
	conns []userConn // two to every address, for contests
}

// userConn is a connection and the reader of its answers; both are nil while it is not connected.
type userConn struct {
	net.Conn
	r *reader
}

func (s *shared) user(id int, seed uint64) *user {
	return &user{shared: s, rng: rand.New(rand.NewPCG(seed, uint64(id)+1<<32)), conns: make([]userConn, 2*len(s.addrs))}
}

func (u *user) close() {
	for i := range u.conns {
		u.drop(i)
	}
}

func (u *user) drop(i int) {
	if u.conns[i].Conn != nil {
		u.conns[i].Close()
	}
	u.conns[i] = userConn{}
}

// any returns the number of a random connection, to any address.
func (u *user) any() int { return u.rng.IntN(len(u.addrs)) }

// send writes request over connection i, which it opens if it is not open.
func (u *user) send(i int, request string) error {
	if u.conns[i].Conn == nil {
		conn, err := net.DialTimeout("tcp", u.addrs[i%len(u.addrs)], AnswerWithin)
		if err != nil {
			return err
		}
		u.conns[i] = userConn{conn, &reader{Reader: bufio.NewReader(conn)}}
	}
	_ = u.conns[i].SetDeadline(time.Now().Add(AnswerWithin))
	_, err := io.WriteString(u.conns[i], request)
	return err
}

// ask sends request over connection i and returns the first line of the answer. If the connection ends in an orderly
// way before the answer, the request was not done: ask repeats it over a new connection.
func (u *user) ask(i int, request string) (line string, err error) {
	for range 2 {
		if err = u.send(i, request); err == nil {
			var text []byte
			if text, err = u.conns[i].r.next(); err == nil {
				return string(text), nil
			}
		}
		u.drop(i)
		if !errors.Is(err, io.EOF) {
			return "", err
		}
	}
	return "", err
}

// value reads key by a get or gets over connection i.
func (u *user) value(i int, command, key string) (value, cas string, ok bool, err error) {
	line, err := u.ask(i, command+" "+key+"\r\n")
	if err != nil || line == "END" {
		return "", "", false, err
	}
	fields := strings.Fields(line)
	if len(fields) < 4 || fields[0] != "VALUE" || fields[1] != key {
		return "", "", false, errors.New(line)
	}
	r := u.conns[i].r
	text, err := r.data(key, fields[3], line)
	if err == nil {
		var end []byte
		if end, err = r.next(); err == nil && string(end) != "END" {
			err = &badReply{strconv.Quote(string(end))}
		}
	}
	if err != nil {
		u.drop(i)
		return "", "", false, err
	}
	if len(fields) > 4 {
		cas = fields[4]
	}
	return string(text), cas, true, nil
}
