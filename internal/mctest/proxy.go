package mctest

import (
	"io"
	"net"
	"sync"
	"testing"
)

// Proxy stands between a client and a real server and passes every byte on, until it is told to do harm.
// Its methods may be called from any goroutine.
type Proxy struct {
	t      testing.TB
	script *Script
	target string

	mu    sync.Mutex
	fault Fault         // guarded by mu
	alter chan struct{} // guarded by mu; closed and replaced when fault changes
}

// Fault is what a Proxy does to the bytes of the server's replies, on every connection.
type Fault struct {
	// Stall holds the replies back until the fault is lifted.
	Stall bool
	// Double sends every chunk of reply bytes twice.
	Double bool
	// Bytewise sends reply bytes one at a time.
	Bytewise bool
	// Cut, if above 0, lets this many reply bytes of a connection pass, counted from the moment the fault is set, and
	// then ends the connection.
	Cut int
	// Reset makes Cut end the connection with a reset.
	Reset bool
	// Refuse ends new connections at once.
	Refuse bool
}

// StartProxy puts a proxy in front of the server at target, which may be restarted behind it.
func StartProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	p := &Proxy{t: t, target: target, alter: make(chan struct{})}
	p.script = StartScript(t, p.serve)
	return p
}

// Addr is where the proxy listens.
func (p *Proxy) Addr() string { return p.script.Addr() }

// Inject sets what goes wrong from now on; the zero Fault lifts it.
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

func (p *Proxy) serve(client *Peer) {
	if f, _ := p.current(); f.Refuse {
		client.Reset()
		return
	}
	network, address := Network(p.target)
	server, err := net.DialTimeout(network, address, DefaultTimeout)
	if err != nil {
		client.Reset()
		return
	}
	gone := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(gone)
		defer server.Close()
		_, _ = io.Copy(server, client.r)
	})
	p.replies(client, server, gone)
	client.conn.Close()
	server.Close()
	wg.Wait()
}

// replies passes the server's bytes on to the client, through the faults. It returns when either side is gone.
func (p *Proxy) replies(client *Peer, server net.Conn, gone <-chan struct{}) {
	buf := make([]byte, 64<<10)
	var era <-chan struct{} // the fault that left was counted under
	left := 0
	for {
		n, err := server.Read(buf)
		chunk := buf[:n]
		f, alter := p.current()
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
		step := max(len(chunk), 1)
		if f.Bytewise {
			step = 1
		}
		for i := 0; i < len(chunk); i += step {
			if _, werr := client.conn.Write(chunk[i:min(i+step, len(chunk))]); werr != nil {
				return
			}
		}
		if f.Double {
			if _, werr := client.conn.Write(chunk); werr != nil {
				return
			}
		}
		if cut {
			if f.Reset {
				client.Reset()
			}
			return
		}
		if err != nil {
			return
		}
	}
}
