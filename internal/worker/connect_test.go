package worker_test

import (
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mcmw/internal/backend"
	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
	"mcmw/internal/route"
	"mcmw/internal/worker"
)

// unreachable is a proxy in front of a server. It can be made unreachable: then connections to it are neither made nor
// refused.
type unreachable struct {
	t      *testing.T
	l      *net.TCPListener
	target string
	ended  chan struct{} // closed when accept has returned

	mu    sync.Mutex // guards conns
	conns []net.Conn
}

// startUnreachable starts a proxy in front of the server at target. It is reachable at first.
func startUnreachable(t *testing.T, target string) *unreachable {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	u := &unreachable{t: t, l: l.(*net.TCPListener), target: target}
	u.begin()
	t.Cleanup(func() { u.end(); _ = l.Close() })
	return u
}

func (u *unreachable) begin() {
	u.ended = make(chan struct{})
	go u.accept()
}

func (u *unreachable) accept() {
	defer close(u.ended)
	for {
		c, err := u.l.Accept()
		if err != nil {
			return
		}
		to, err := net.Dial("tcp", u.target)
		if err != nil {
			_ = c.Close()
			return
		}
		u.keep(c, to)
		for _, way := range [][2]net.Conn{{c, to}, {to, c}} {
			go func() {
				_, _ = io.Copy(way[0], way[1])
				_ = way[0].Close()
			}()
		}
	}
}

func (u *unreachable) keep(conns ...net.Conn) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.conns = append(u.conns, conns...)
}

// end stops accepting, and cuts all connections.
func (u *unreachable) end() {
	_ = u.l.SetDeadline(time.Unix(1, 0))
	<-u.ended
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, c := range u.conns {
		_ = c.Close()
	}
	u.conns = nil
}

// backlog sets how many connections may wait to be accepted. The kernel drops further requests for a connection.
func (u *unreachable) backlog(n int) {
	raw, err := u.l.SyscallConn()
	require.NoError(u.t, err)
	require.NoError(u.t, raw.Control(func(fd uintptr) { err = syscall.Listen(int(fd), n) }))
	require.NoError(u.t, err)
}

// Cut makes the proxy unreachable.
func (u *unreachable) Cut() {
	u.end()
	u.backlog(0)
	for dropped := 0; dropped < 2; { // a busy machine may drop one
		c, err := net.DialTimeout("tcp", u.l.Addr().String(), 100*time.Millisecond)
		var late net.Error
		switch {
		case err == nil:
			u.keep(c)
			dropped = 0
		case errors.As(err, &late) && late.Timeout():
			dropped++
		default:
			require.NoError(u.t, err)
		}
	}
}

// Restore makes the proxy reachable again.
func (u *unreachable) Restore() {
	u.backlog(128)
	require.NoError(u.t, u.l.SetDeadline(time.Time{}))
	u.begin()
}

func TestRequestsOfARoundDoNotWaitForAConnectionThatTheyDoNotNeed(t *testing.T) {
	for name, stallAfter := range map[string]time.Duration{"patient": -1, "with a stand-in": 20 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			begun, hold := make(chan struct{}), make(chan struct{})
			a := mctest.StartScript(t, func(p *mctest.Peer) {
				p.Answer(func(line string) string {
					if line == "get a:hold" {
						close(begun)
						<-hold
					}
					return "END\r\n"
				})
			})
			b := startUnreachable(t, mctest.StartMemcached(t).Addr())
			// A request that waits for a timeout fails the test.
			o := middleware.Options{
				Workers:        1,
				RequestOptions: worker.RequestOptions{Depth: 8, Timeout: 10 * time.Minute, StallAfter: stallAfter},
			}
			for pool, addr := range map[string]string{"a": a.Addr(), "b": b.l.Addr().String()} {
				o.Pools = append(o.Pools, middleware.PoolOptions{
					Pool:          route.Pool{Name: pool, Servers: []route.Server{{Name: pool, Addr: addr, Weight: 1}}},
					Writers:       middleware.WritersOne,
					ServerOptions: backend.ServerOptions{ConnectTimeout: 10 * time.Minute, FailureLimit: 1_000_000},
				})
			}
			o.Routes = route.Routes{Prefixes: []route.Prefix{{Prefix: "b:", Pool: "b"}}, Default: "a"}
			m := mwtest.Start(t, o)
			holds, needs, other := dial(t, m.Addr()), dial(t, m.Addr()), dial(t, m.Addr())
			require.Equal(t, "STORED\r\n", needs.ask("set b:x 0 0 1\r\nx\r\n", 1))
			b.Cut()
			if stallAfter < 0 { // all in one round
				holds.ask("get a:hold\r\n", 0)
				<-begun
				needs.ask("get b:x\r\n", 0)
				other.ask("get a:y\r\n", 0)
				require.Eventually(t, func() bool { return m.Stats().Snapshot().QueueLength == 2 }, mctest.Patience,
					mctest.Tick)
				close(hold)
				require.Equal(t, "END\r\n", holds.ask("", 1))
				require.Equal(t, "END\r\n", other.ask("", 1))
			} else {
				needs.ask("get b:x\r\n", 0)
				require.Equal(t, "END\r\n", other.ask("get a:y\r\n", 1))
				require.Eventually(t, func() bool {
					return m.Stats().Snapshot().Servers[len(o.Pools)-1].Health.Stalls+m.Stats().Snapshot().
						Servers[0].Health.Stalls > 0
				}, mctest.Patience, mctest.Tick)
				require.Equal(t, "END\r\n", other.ask("get a:z\r\n", 1))
			}
			b.Restore()
			require.Equal(t, "VALUE b:x 0 1\r\nx\r\nEND\r\n", needs.ask("", 3))
		})
	}
}
