package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"mcmw/internal/protocol"
	"mcmw/test/history"
)

// attack is a kind of hostile clients. They must not affect other clients.
type attack struct {
	name, title string
	clients     int
	// logins: clients must log in.
	logins bool
	// use attacks over one connection, until that ends. It is called again with a new connection.
	use func(conn net.Conn, rng *rand.Rand)
}

var attacks = []attack{
	{
		name: "announce", title: "announce large values and send a little of them", clients: 64,
		use: func(conn net.Conn, _ *rand.Rand) {
			fmt.Fprintf(conn, "set hostile 0 0 1000000\r\n%s", strings.Repeat("x", 20_000))
			drain(conn)
		},
	},
	{name: "drip", title: "send requests byte by byte", clients: 64, use: func(conn net.Conn, _ *rand.Rand) {
		for drip(conn, []byte("get hostile\r\n")) == nil {
		}
	}},
	{name: "unread", title: "ask for large values and read none", clients: 16, use: func(conn net.Conn, _ *rand.Rand) {
		value := strings.Repeat("x", 500_000)
		fmt.Fprintf(conn, "set hostile 0 0 %d\r\n%s\r\n", len(value), value)
		gets := []byte(strings.Repeat("get hostile\r\n", 1000))
		for {
			if _, err := conn.Write(gets); err != nil {
				return
			}
		}
	}},
	{name: "malformed", title: "send malformed lines", clients: 8, use: func(conn net.Conn, rng *rand.Rand) {
		go drain(conn)
		for {
			line := make([]byte, 1+rng.IntN(200))
			for i := range line {
				line[i] = byte(rng.Uint32())
			}
			words := []string{
				"get", "set k 0 0", "cas", "ms", "mg", "incr k", "gat", "touch", "stats", "me", "md",
				"ma", "",
			}
			if _, err := fmt.Fprintf(conn, "%s %s\r\n", words[rng.IntN(len(words))], line); err != nil {
				return
			}
		}
	}},
	{name: "smuggle", title: "hide commands in values whose sizes are ambiguous", clients: 8, use: smuggle},
	{name: "multiget", title: "ask for 20,000 keys at a time", clients: 4, use: func(conn net.Conn, _ *rand.Rand) {
		line, r := []byte("get"+strings.Repeat(" hostile", 20_000)+"\r\n"), bufio.NewReader(conn)
		for ask(conn, r, line) == nil {
		}
	}},
	{name: "binary", title: "speak the binary protocol", clients: 16, use: func(conn net.Conn, _ *rand.Rand) {
		header := append([]byte{0x80, 0x00, 0, 7, 0, 0, 0, 0, 0, 0, 0, 7}, make([]byte, 12)...)
		_, _ = conn.Write(append(header, "hostile"...))
		drain(conn)
	}},
	{name: "login", title: "log in byte by byte", clients: 64, logins: true, use: func(conn net.Conn, _ *rand.Rand) {
		_ = drip(conn, protocol.AppendLogin(nil, history.LoginUser, "wrong"))
		drain(conn)
	}},
	{name: "guess", title: "guess passwords", clients: 16, logins: true, use: func(conn net.Conn, rng *rand.Rand) {
		r := bufio.NewReader(conn)
		for ask(conn, r, protocol.AppendLogin(nil, history.LoginUser, strconv.Itoa(rng.Int()))) == nil {
		}
	}},
}

// drip sends bytes one by one.
func drip(conn net.Conn, text []byte) error {
	for i := range text {
		if _, err := conn.Write(text[i : i+1]); err != nil {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
	return nil
}

// ask sends a request and reads one line of the reply.
func ask(conn net.Conn, r *bufio.Reader, request []byte) error {
	if _, err := conn.Write(request); err != nil {
		return err
	}
	_, err := r.ReadString('\n')
	return err
}

const (
	// attackers is the source address of attacks: failed logins are throttled by address.
	attackers = "127.0.1.1"
	// visitors is how many legitimate clients log in repeatedly during an attack, if clients must log in.
	visitors = 4
)

// smuggle sends values whose sizes a server might read differently than the middleware. It would then take part of a
// value for a command, and another client would get the reply.
func smuggle(conn net.Conn, _ *rand.Rand) {
	r := bufio.NewReader(conn)
	hidden := "get hidden"
	for {
		n := len(hidden)
		for _, size := range []string{"+%d", "0%d", " %d", "%d.", "0x%x", "%d \x00", "-%d"} {
			text := fmt.Sprintf(size, n)
			for _, line := range []string{
				"set hostile 0 0 " + text, "set hostile 0 0 " + text + " noreply",
				"ms hostile " + text, "cas hostile 0 0 " + text + " 1", "set hostile +0 -0 " + text,
			} {
				if _, err := fmt.Fprintf(conn, "%s\r\n%s\r\nmn\r\n", line, hidden); err != nil {
					return
				}
				for reply := ""; reply != "MN\r\n"; {
					var err error
					if reply, err = r.ReadString('\n'); err != nil {
						return
					}
				}
			}
		}
		if _, err := fmt.Fprintf(conn, "set hostile 0 0 %d\r\n%s\r\n", 1<<32+n, hidden); err != nil {
			return
		}
	}
}

func drain(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }

// siege is an attack in progress.
type siege struct {
	attack attack
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu     sync.Mutex // guards the fields below
	visits int        // visitors that were served
	failed int        // visitors that were not
	first  error      // of the first failed visitor
}

// begin starts the attack.
func (a attack) begin(_ context.Context, s *system) error {
	g := &siege{attack: a}
	var ctx context.Context
	ctx, g.cancel = context.WithCancel(context.Background())
	s.siege = g
	for i := range a.clients {
		rng := rand.New(rand.NewPCG(1, uint64(i)))
		g.wg.Go(func() { useConnections(ctx, attackers, s.listen, func(conn net.Conn) { a.use(conn, rng) }) })
	}
	for range visitors {
		if a.logins {
			g.wg.Go(func() { useConnections(ctx, "", s.listen, g.visit) })
		}
	}
	return nil
}

// useConnections uses one connection after another, each from one address to another, and closes them, until ctx ends.
func useConnections(ctx context.Context, from, to string, use func(net.Conn)) {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	for ctx.Err() == nil {
		if conn, err := dialer.DialContext(ctx, "tcp", to); err == nil {
			stop := context.AfterFunc(ctx, func() { conn.Close() })
			use(conn)
			stop()
			conn.Close()
		}
		_ = sleep(ctx, 20*time.Millisecond)
	}
}

// visit logs in as a legitimate client and sends a request.
func (g *siege) visit(conn net.Conn) {
	err := history.Visit(conn)
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case err == nil:
		g.visits++
	case history.Unserved(err):
		g.failed++
		g.first = cmp.Or(g.first, err)
	}
}

// end ends the attack and waits for it.
func (g *siege) end() {
	g.cancel()
	g.wg.Wait()
}

func endAttack(_ context.Context, s *system) error {
	g := s.siege
	s.siege = nil
	g.end()
	if g.attack.logins && (g.failed > 0 || g.visits == 0) {
		s.broken = append(s.broken, fmt.Sprintf("visitors: %d served, %d not: %v", g.visits, g.failed, g.first))
	}
	return nil
}
