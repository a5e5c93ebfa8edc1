package faulty

import (
	"net"
	"sync"
)

// Server listens on a port of its own and runs a function for every connection.
type Server struct {
	listen net.Listener
	wg     sync.WaitGroup

	mu     sync.Mutex
	open   map[net.Conn]bool // guarded by mu
	closed bool              // guarded by mu
}

// Start listens on a free loopback port and runs serve for every connection, each in a goroutine of its own. n is the
// number of the connection, from 0 in the order of acceptance. The connection is closed when serve returns.
func Start(serve func(n int, conn net.Conn)) (*Server, error) {
	listen, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &Server{listen: listen, open: make(map[net.Conn]bool)}
	s.wg.Go(func() {
		for n := 0; ; n++ {
			conn, err := listen.Accept()
			if err != nil {
				return
			}
			if !s.add(conn) {
				conn.Close()
				return
			}
			s.wg.Go(func() {
				defer s.remove(conn)
				serve(n, conn)
			})
		}
	})
	return s, nil
}

// Addr returns the address on which the server listens.
func (s *Server) Addr() string { return s.listen.Addr().String() }

// Stop closes the listener and every connection, and waits for the goroutines that serve them.
func (s *Server) Stop() {
	s.listen.Close()
	s.mu.Lock()
	s.closed = true
	for conn := range s.open {
		conn.Close()
	}
	s.mu.Unlock()
	s.wg.Wait()
}

func (s *Server) add(conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.open[conn] = true
	return true
}

func (s *Server) remove(conn net.Conn) {
	conn.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, conn)
}

// Reset closes conn so that the other side sees a reset instead of an orderly end.
func Reset(conn net.Conn) error {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	return conn.Close()
}
