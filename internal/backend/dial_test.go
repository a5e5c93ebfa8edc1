package backend_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/backend"
	"mcmw/internal/mctest"
	"mcmw/internal/secret"
	"mcmw/internal/stats"
	"mcmw/internal/wire"
)

// trusting returns TLS access with the given files.
func trusting(t *testing.T, files secret.ClientFiles) backend.Access {
	t.Helper()
	config, err := secret.ClientTLS(files, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	return backend.Access{TLS: config}
}

func credentials(user, password string) func() (string, string) {
	return func() (string, string) { return user, password }
}

// connected returns a connection to addr, or the error of connecting.
func connected(t *testing.T, addr string, a backend.Access) (*backend.Conn, *backend.Error) {
	t.Helper()
	c := backend.NewConn(newServer(addr, backend.Options{Access: a}), time.Second)
	err := c.Connect(context.Background())
	t.Cleanup(c.Close)
	return c, err
}

// exchange sends request and returns the reply, which ends with end.
func exchange(t *testing.T, c *backend.Conn, request, end string) string {
	t.Helper()
	require.Nil(t, c.Connect(context.Background()))
	c.Out.AddString(request)
	require.Nil(t, c.Flush())
	for !strings.HasSuffix(string(c.Unparsed()), end) {
		_, err := c.Fill(0, stats.Now()+int64(mctest.Patience))
		require.Nil(t, err)
	}
	c.Take(len(c.Unparsed()))
	reply := string(c.Reply())
	require.Nil(t, c.EndRound())
	return reply
}

func TestRequestsCanBeSentOverTLS(t *testing.T) {
	ca := mctest.NewCA(t)
	for name, server := range map[string]*mctest.Server{
		"TLS 1.3": mctest.StartMemcachedTLS(t, ca),
		"a client certificate": mctest.StartMemcachedTLS(t, ca, "-o", "ssl_ca_cert="+ca.File, "-o",
			"ssl_verify_mode=2"),
	} {
		t.Run(name, func(t *testing.T) {
			files := secret.ClientFiles{CA: ca.File}
			files.Cert, files.Key = ca.Issue("mcmw")
			c, err := connected(t, server.Addr(), trusting(t, files))
			require.Nil(t, err)
			value := strings.Repeat("v", 100_000)
			assert.Equal(t, "STORED\r\n", exchange(t, c, "set k 0 0 100000\r\n"+value+"\r\n", "\r\n"))
			assert.Equal(t, "VALUE k 0 100000\r\n"+value+"\r\nEND\r\n", exchange(t, c, "get k\r\n", "END\r\n"))
		})
	}
}

// The session tickets of TLS 1.3 stay unread in an idle connection.
func TestAnIdleTLSConnectionIsReused(t *testing.T) {
	ca := mctest.NewCA(t)
	server := mctest.StartMemcachedTLS(t, ca)
	tickets := func(host string) *tls.Config {
		c := ca.Client("", "")
		c.ClientSessionCache = tls.NewLRUClientSessionCache(1)
		return c
	}
	c, err := connected(t, server.Addr(), backend.Access{TLS: tickets})
	require.Nil(t, err)
	before := server.Stat("total_connections")
	for range 6 {
		exchange(t, c, "version\r\n", "\r\n")
	}
	assert.Equal(t, before+1, server.Stat("total_connections"), "none but the connection that asks")
}

func TestASessionThatTheServerEndedIsMadeAgain(t *testing.T) {
	ca := mctest.NewCA(t)
	server := mctest.StartMemcachedTLS(t, ca)
	c, err := connected(t, server.Addr(), trusting(t, secret.ClientFiles{CA: ca.File}))
	require.Nil(t, err)
	exchange(t, c, "version\r\n", "\r\n")
	server.Restart()
	assert.Contains(t, exchange(t, c, "version\r\n", "\r\n"), "VERSION")
}

func TestAConnectionWhoseTLSChecksFailIsRefusedWithTheReason(t *testing.T) {
	ca, other := mctest.NewCA(t), mctest.NewCA(t)
	secure, plain := mctest.StartMemcachedTLS(t, ca), mctest.StartMemcached(t)
	picky := mctest.StartMemcachedTLS(t, ca, "-o", "ssl_ca_cert="+ca.File, "-o", "ssl_verify_mode=2")
	silent := mctest.StartScript(t, (*mctest.Peer).Stall)
	for name, tc := range map[string]struct {
		addr  string
		files secret.ClientFiles
		want  string
	}{
		"another authority": {
			secure.Addr(),
			secret.ClientFiles{CA: other.File},
			"a: TLS: failed to verify certificate: x509: certificate signed by unknown authority",
		},
		"another name": {
			secure.Addr(),
			secret.ClientFiles{CA: ca.File, Name: "cache1"},
			"a: TLS: failed to verify certificate: x509: certificate is valid for localhost, not cache1",
		},
		"no TLS there": {plain.Addr(), secret.ClientFiles{CA: ca.File}, "a: TLS: "},
		"no answer":    {silent.Addr(), secret.ClientFiles{CA: ca.File}, "a: TLS: connection timed out"},
		// The reset may come before the alert was read.
		"a certificate is required": {
			picky.Addr(),
			secret.ClientFiles{CA: ca.File},
			"a: (remote error: tls: certificate required|connection reset by peer)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := connected(t, tc.addr, trusting(t, tc.files))
			if err == nil {
				// With TLS 1.3 the refusal comes after the handshake.
				c.Out.AddString("version\r\n")
				if err = c.Flush(); err == nil {
					_, err = c.Fill(0, stats.Now()+int64(mctest.Patience))
				}
			}
			require.NotNil(t, err)
			assert.Regexp(t, tc.want, err.Error())
		})
	}
}

func TestAServerThatRefusesThisClientCountsAsNotReached(t *testing.T) {
	file := filepath.Join(t.TempDir(), "passwords")
	require.NoError(t, os.WriteFile(file, []byte("mcmw:secret\n"), 0o600))
	ca := mctest.NewCA(t)
	locked := mctest.StartMemcached(t, "-Y", file)
	picky := mctest.StartMemcachedTLS(t, ca, "-o", "ssl_ca_cert="+ca.File, "-o", "ssl_verify_mode=2")
	secure := mctest.StartMemcachedTLS(t, ca)
	shown := secret.ClientFiles{CA: ca.File}
	shown.Cert, shown.Key = ca.Issue("mcmw")
	foreign := secret.ClientFiles{CA: ca.File}
	foreign.Cert, foreign.Key = mctest.NewCA(t).Issue("mcmw")
	for name, tc := range map[string]struct {
		addr    string
		access  backend.Access
		refused string
	}{
		"no password":  {locked.Addr(), backend.Access{}, `"CLIENT_ERROR unauthenticated"`},
		"the password": {locked.Addr(), backend.Access{Login: credentials("mcmw", "secret")}, ""},
		"no certificate": {
			picky.Addr(), trusting(t, secret.ClientFiles{CA: ca.File}),
			"certificate required|connection reset",
		},
		"a foreign certificate": {
			picky.Addr(), trusting(t, foreign),
			"unknown certificate authority|certificate required|connection reset",
		},
		"the certificate":           {picky.Addr(), trusting(t, shown), ""},
		"plain TCP to a TLS server": {secure.Addr(), backend.Access{}, "unexpected reply|connection"},
	} {
		t.Run(name, func(t *testing.T) {
			err := newServer(tc.addr, backend.Options{Access: tc.access}).Reach(t.Context())
			if tc.refused == "" {
				require.NoError(t, err)
				return
			}
			require.Error(t, err)
			assert.Regexp(t, tc.refused, err.Error())
		})
	}
}

func TestTheEndOfTheContextInterruptsConnecting(t *testing.T) {
	for name, tc := range map[string]struct {
		access backend.Access
		call   func(s *backend.Server, ctx context.Context) error
	}{
		"a probe": {backend.Access{}, (*backend.Server).Reach},
		"a TLS handshake": {
			trusting(t, secret.ClientFiles{CA: mctest.NewCA(t).File}),
			func(s *backend.Server, ctx context.Context) error {
				_, err := s.Dial(ctx)
				return err
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			asked := make(chan struct{}, 1)
			silent := mctest.StartScript(t, func(p *mctest.Peer) {
				_, _ = p.Reader().ReadByte()
				asked <- struct{}{}
				p.Stall()
			})
			s := newServer(silent.Addr(),
				backend.Options{ServerOptions: backend.ServerOptions{ConnectTimeout: time.Hour}, Access: tc.access})
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- tc.call(s, ctx) }()
			<-asked
			cancel()
			select {
			case err := <-ended:
				require.Error(t, err)
			case <-time.After(mctest.Patience):
				require.Fail(t, "it still waits")
			}
		})
	}
}

func TestAConnectionIsAuthenticated(t *testing.T) {
	file := filepath.Join(t.TempDir(), "passwords")
	require.NoError(t, os.WriteFile(file, []byte("mcmw:secret\n"), 0o600))
	ca := mctest.NewCA(t)
	both := trusting(t, secret.ClientFiles{CA: ca.File})
	both.Login = credentials("mcmw", "secret")
	for name, tc := range map[string]struct {
		server *mctest.Server
		access backend.Access
	}{
		"plain": {mctest.StartMemcached(t, "-Y", file), backend.Access{Login: credentials("mcmw", "secret")}},
		"TLS":   {mctest.StartMemcachedTLS(t, ca, "-Y", file), both},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := connected(t, tc.server.Addr(), tc.access)
			require.Nil(t, err)
			assert.Equal(t, "END\r\n", exchange(t, c, "get k\r\n", "\r\n"))
			wrong := tc.access
			wrong.Login = credentials("mcmw", "guessed")
			_, err = connected(t, tc.server.Addr(), wrong)
			require.NotNil(t, err)
			assert.Equal(t, `a: authentication: refused with "CLIENT_ERROR authentication failure"`, err.Error())
			assert.Equal(t, stats.ReasonConnect, err.Reason)
		})
	}
}

func TestAPasswordSentToAServerWithoutAuthenticationCannotBeReadThere(t *testing.T) {
	server := mctest.StartMemcached(t)
	c, err := connected(t, server.Addr(), backend.Access{Login: credentials("mcmw", "secret")})
	require.Nil(t, err)
	assert.Equal(t, "END\r\n", exchange(t, c, "get mcmw-login\r\n", "\r\n"))
}

func TestABadReplyToALoginIsAnErrorAndDoesNotHang(t *testing.T) {
	for name, tc := range map[string]struct {
		serve func(p *mctest.Peer)
		want  string
	}{
		"never":  {(*mctest.Peer).Stall, "authentication: connection timed out"},
		"closed": {func(p *mctest.Peer) { p.Line() }, "authentication: connection "}, // ended or reset
		"without end": {
			func(p *mctest.Peer) { p.Send(strings.Repeat("x", 5000)); p.Stall() },
			"authentication: unexpected reply",
		},
		"too much": {
			func(p *mctest.Peer) { p.Send("STORED\r\nSTORED\r\n"); p.Stall() },
			`authentication: refused with "STORED"`,
		},
		"an error": {
			func(p *mctest.Peer) { p.Send("ERROR\r\n"); p.Stall() },
			`authentication: refused with "ERROR"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			script := mctest.StartScript(t, tc.serve)
			_, err := connected(t, script.Addr(), backend.Access{Login: credentials("mcmw", "secret")})
			require.NotNil(t, err)
			assert.Contains(t, err.Error(), "a: "+tc.want)
			assert.NotContains(t, err.Error(), "secret")
		})
	}
}

func TestAUnixSocketHasNoTLS(t *testing.T) {
	server := mctest.StartMemcached(t, "-s", filepath.Join(t.TempDir(), "s"))
	c, err := connected(t, server.Addr(), trusting(t, secret.ClientFiles{CA: mctest.NewCA(t).File}))
	require.Nil(t, err)
	assert.Contains(t, exchange(t, c, "version\r\n", "\r\n"), "VERSION")
}

// The prober connects as the workers do, and its deletions may be longer than a TLS record.
func TestAServerWithTLSAndAPasswordComesBack(t *testing.T) {
	file := filepath.Join(t.TempDir(), "passwords")
	require.NoError(t, os.WriteFile(file, []byte("mcmw:secret\n"), 0o600))
	ca := mctest.NewCA(t)
	server := mctest.StartMemcachedTLS(t, ca, "-Y", file)
	access := trusting(t, secret.ClientFiles{CA: ca.File})
	access.Login = credentials("mcmw", "secret")
	s := newServer(server.Addr(), backend.Options{Access: access})
	probe(t, s)
	c := backend.NewConn(s, time.Second)
	defer c.Close()
	exchange(t, c, "set other 0 0 1\r\nx\r\n", "\r\n")
	for i := range 400 {
		key := fmt.Sprintf("%s%d", strings.Repeat("k", 200), i)
		exchange(t, c, "set "+key+" 0 0 1\r\nx\r\n", "\r\n")
		s.Missed([]byte(key), assert.AnError)
	}
	require.Eventually(t, s.Readable, mctest.Patience, mctest.Tick)
	_, ok := server.Get(strings.Repeat("k", 200) + "7")
	assert.False(t, ok)
	_, ok = server.Get("other")
	assert.True(t, ok)
}

// BenchmarkConnect measures the cost of making a connection.
func BenchmarkConnect(b *testing.B) {
	ca := mctest.NewCA(b)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	defer l.Close()
	config := ca.Server()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				s, err := wire.NewSocket(c)
				if err != nil {
					return
				}
				s.UseTLS(config, false)
				_ = s.Handshake()
			}()
		}
	}()
	s := newServer(l.Addr().String(),
		backend.Options{Access: backend.Access{TLS: func(string) *tls.Config { return ca.Client("", "") }}})
	for b.Loop() {
		sock, err := s.Dial(context.Background())
		require.NoError(b, err)
		_ = sock.Close()
	}
}

func TestOnlyARefusedConnectionSaysThatNobodyListens(t *testing.T) {
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, gone.Close())
	closes := mctest.StartScript(t, func(*mctest.Peer) {})
	for addr, refuses := range map[string]bool{
		gone.Addr().String(): true,
		closes.Addr():        false,
		"unix:" + filepath.Join(t.TempDir(), "no-socket"): false,
		"name.invalid:11211":                              false,
	} {
		s := newServer(addr, backend.Options{})
		s.NeedVersions(true) // so that a connection that is closed at once fails
		_, err := s.Dial(t.Context())
		require.Error(t, err, addr)
		require.Equal(t, refuses, backend.Refuses(err), addr)
	}
}
