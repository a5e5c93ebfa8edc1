package faulty

import (
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"time"
)

// dialTimeout bounds the time that a Proxy waits for its server to accept a connection. The server may be on a busy
// machine.
const dialTimeout = 15 * time.Second

// Proxy forwards bytes between clients and a real server. Its methods may be called from any goroutine.
type Proxy struct {
	*Server
	target string

	mu    sync.Mutex
	fault Fault         // guarded by mu
	alter chan struct{} // guarded by mu; closed and replaced when fault changes
}

// Fault is a fault that a Proxy applies to the bytes of replies on every connection. Jitter and Lose apply to the bytes
// of requests.
type Fault struct {
	// Jitter delays every chunk of requests by a random time up to this. The chunks of a connection stay in order.
	Jitter time.Duration
	// Lose drops requests.
	Lose bool
	// Stall holds replies until the fault is removed.
	Stall bool
	// Delay delays every chunk of reply bytes.
	Delay time.Duration
	// Double sends every chunk of reply bytes twice, in one write.
	Double bool
	// Bytewise sends reply bytes one at a time.
	Bytewise bool
	// Cut, if above 0, ends a connection after this many bytes of replies, counted from the moment at which the fault
	// is set.
	Cut int
	// Reset makes Cut end the connection with a reset.
	Reset bool
	// Refuse ends new connections at once.
	Refuse bool
}

// StartProxy puts a Proxy in front of the server at target, "host:port" or "unix:/path", which may be restarted.
func StartProxy(target string) (*Proxy, error) {
	p := &Proxy{target: target, alter: make(chan struct{})}
	server, err := Start(func(_ int, conn net.Conn) { p.serve(conn) })
	if err != nil {
		return nil, err
	}
	p.Server = server
	return p, nil
}

// Inject sets the fault; the zero Fault removes it.
func (p *Proxy) Inject(f Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = f
	close(p.alter)
	p.alter = make(chan struct{})
}

func (p *Proxy) current() (Fault, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fault, p.alter
}

func (p *Proxy) serve(client net.Conn) {
	if f, _ := p.current(); f.Refuse {
		_ = Reset(client)
		return
	}
	network, address := "tcp", p.target
	if path, ok := strings.CutPrefix(p.target, "unix:"); ok {
		network, address = "unix", path
	}
	server, err := net.DialTimeout(network, address, dialTimeout)
	if err != nil {
		_ = Reset(client)
		return
	}
	gone := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(gone)
		defer server.Close()
		p.requests(server, client)
	})
	p.replies(client, server, gone)
	client.Close()
	server.Close()
	wg.Wait()
}

// requests forwards the client's bytes to the server, with the faults applied. It returns when either side is gone.
func (p *Proxy) requests(server, client net.Conn) {
	buf := make([]byte, 64<<10)
	for {
		n, err := client.Read(buf)
		if f, _ := p.current(); n > 0 && f.Jitter > 0 {
			time.Sleep(rand.N(f.Jitter))
		}
		if f, _ := p.current(); f.Lose {
			n = 0
		}
		if _, werr := server.Write(buf[:n]); err != nil || werr != nil {
			return
		}
	}
}

// replies forwards the server's bytes to the client, with the faults applied. It returns when either side is gone.
func (p *Proxy) replies(client, server net.Conn, gone <-chan struct{}) {
	buf := make([]byte, 64<<10)
	var era <-chan struct{} // the alter channel of the fault for which left counts
	left := 0
	for {
		n, err := server.Read(buf)
		chunk := buf[:n]
		f, alter := p.current()
		if n > 0 && f.Delay > 0 && !pause(f.Delay, alter, gone) {
			return
		}
		for f.Stall && n > 0 {
			select {
			case <-alter:
			case <-gone:
				return
			}
			f, alter = p.current()
		}
		if alter != era {
			era, left = alter, f.Cut
		}
		cut := f.Cut > 0 && len(chunk) >= left
		if cut {
			chunk = chunk[:left]
		}
		left -= len(chunk)
		if f.Double {
			chunk = append(chunk[:len(chunk):len(chunk)], chunk...)
		}
		step := max(len(chunk), 1)
		if f.Bytewise {
			step = 1
		}
		for i := 0; i < len(chunk); i += step {
			if _, werr := client.Write(chunk[i:min(i+step, len(chunk))]); werr != nil {
				return
			}
		}
		if cut {
			if f.Reset {
				_ = Reset(client)
			}
			return
		}
		if err != nil {
			return
		}
	}
}

// pause waits for d, or until the fault changes. It returns false if the client is gone.
func pause(d time.Duration, alter, gone <-chan struct{}) bool {
	select {
	case <-time.After(d):
	case <-alter:
	case <-gone:
		return false
	}
	return true
}
