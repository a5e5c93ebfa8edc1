package mctest_test

import (
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
)

func TestARealServerAnswersStopsAndRestartsEmptyAtTheSameAddress(t *testing.T) {
	s := mctest.StartMemcached(t, "-t", "1")
	c := mctest.MustDial(t, s.Addr())
	require.Equal(t, "STORED\r\n", c.MustDo(t, "set k 7 0 5\r\na\r\nbc\r\n"))
	require.Equal(t, "VALUE k 7 5\r\na\r\nbc\r\nEND\r\n", c.MustDo(t, "get k\r\n"))
	value, ok := s.Get("k")
	require.True(t, ok)
	require.Equal(t, "a\r\nbc", value)
	require.EqualValues(t, 1, s.Stat("curr_items"))

	addr, pid := s.Addr(), s.Pid()
	s.Restart()
	require.Equal(t, addr, s.Addr())
	require.NotEqual(t, pid, s.Pid())
	_, ok = s.Get("k")
	require.False(t, ok, "a restarted server is empty")

	s.Stop()
	_, err := mctest.Dial(addr)
	require.Error(t, err)
	s.Start()
	require.Equal(t, addr, s.Addr())
}

func TestThePortOfAStoppedServerIsGivenToNobodyElse(t *testing.T) {
	s, other := mctest.StartMemcached(t), mctest.StartMemcached(t)
	s.Stop()
	_, err := mctest.Dial(s.Addr())
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	from := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.MustParseAddrPort(s.Addr()))}
	_, err = from.Dial("tcp", other.Addr())
	require.ErrorIs(t, err, syscall.EADDRINUSE)
}

func TestARealServerListensOnAUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	s := mctest.StartMemcached(t, "-s", path)
	require.Equal(t, "unix:"+path, s.Addr())
	c := mctest.MustDial(t, s.Addr())
	require.Equal(t, "END\r\n", c.MustDo(t, "get k\r\n"))
	require.NoError(t, c.Send([]byte("get")))
	require.NoError(t, mctest.AwaitRead(c.Conn, mctest.Patience))
	require.Equal(t, "END\r\n", c.MustDo(t, " k\r\n"))
}

func TestAFrozenServerAnswersOnceThawed(t *testing.T) {
	s := mctest.StartMemcached(t)
	c := mctest.MustDial(t, s.Addr())
	c.MustDo(t, "get k\r\n")
	s.Freeze()
	c.Timeout = 50 * time.Millisecond
	_, err := c.Do("get k\r\n")
	require.Error(t, err)
	s.Thaw()
	c.Timeout = mctest.Patience
	require.Equal(t, "END\r\n", c.MustReply(t))
}

func TestTheClientReadsOneReplyOfEachKind(t *testing.T) {
	replies := []string{
		"STORED\r\n", "17\r\n", "END\r\n", "HD\r\n",
		"VALUE a 0 4\r\nEND\r\r\nVALUE b 0 0 12\r\n\r\nEND\r\n",
		"VA 3 f1\r\n\r\nx\r\n",
		"STAT a 1\r\nSTAT b 2\r\nEND\r\n",
		"VALUE a 0 1\r\nx\r\nSERVER_ERROR broken off\r\n",
		"CLIENT_ERROR line\r\n",
	}
	s := mctest.StartScript(t, func(p *mctest.Peer) {
		p.SendBytewise(strings.Join(replies, ""))
		p.Stall()
	})
	c := mctest.MustDial(t, s.Addr())
	for _, want := range replies {
		require.Equal(t, want, c.MustReply(t))
	}
	require.NoError(t, c.CloseWrite())
	rest, err := c.Rest()
	require.NoError(t, err)
	require.Empty(t, rest)
}

func TestTheClientRefusesAMalformedReply(t *testing.T) {
	for _, reply := range []string{
		"VALUE a 0 x\r\n",
		"VALUE a 0\r\n",
		"VALUE a 0 2\r\nabcd\r\nEND\r\n",
		"VALUE a 0 2\r\nab",
	} {
		s := mctest.StartScript(t, func(p *mctest.Peer) { p.Send(reply) })
		_, err := mctest.MustDial(t, s.Addr()).Reply()
		require.Error(t, err, "%q", reply)
	}
	for _, reply := range []string{
		"VALUE a 0 2\r\nab\r\n", "END\r\nEND\r\n", "VALUE a 0 3\r\nab\r\nEND\r\n", "VALUE a 0 1\r\nab\r\nEND\r\n",
		"STORED\r\n", "",
	} {
		_, err := mctest.ParseValues(reply)
		require.Error(t, err, "%q", reply)
	}
}

func TestAScriptChecksWhatItReceivesAndCanReset(t *testing.T) {
	s := mctest.StartScript(t, func(p *mctest.Peer) {
		if p.N == 0 && p.Expect("get a\r\n") {
			p.Send("END\r\n")
			p.Reset()
			return
		}
		p.Answer(func(line string) string { return "ECHO " + line + "\r\n" })
	})
	c := mctest.MustDial(t, s.Addr())
	reply, err := c.Do("get a\r\n")
	if err == nil {
		require.Equal(t, "END\r\n", reply)
	}
	rest, err := c.Rest()
	require.NoError(t, err)
	require.Empty(t, rest)
	require.Equal(t, "ECHO x\r\n", mctest.MustDial(t, s.Addr()).MustDo(t, "x\r\n"))
}

func TestAProxyForwardsBytesUntilAFaultIsInjected(t *testing.T) {
	s := mctest.StartMemcached(t)
	p := mctest.StartProxy(t, s.Addr())
	c := mctest.MustDial(t, p.Addr())
	require.Equal(t, "STORED\r\n", c.MustDo(t, "set k 0 0 3\r\nabc\r\n"))
	const hit = "VALUE k 0 3\r\nabc\r\nEND\r\n"
	require.Equal(t, hit, c.MustDo(t, "get k\r\n"))

	p.Inject(mctest.Fault{Bytewise: true})
	require.Equal(t, hit, c.MustDo(t, "get k\r\n"))

	p.Inject(mctest.Fault{Jitter: 2 * time.Millisecond})
	require.Equal(t, hit, c.MustDo(t, "get k\r\n"))

	p.Inject(mctest.Fault{Double: true})
	require.Equal(t, hit, c.MustDo(t, "get k\r\n"))
	require.Equal(t, hit, c.MustReply(t))

	p.Inject(mctest.Fault{Stall: true})
	c.Timeout = 50 * time.Millisecond
	_, err := c.Do("get k\r\n")
	require.Error(t, err)
	p.Inject(mctest.Fault{})
	c.Timeout = mctest.Patience
	require.Equal(t, hit, c.MustReply(t))

	p.Inject(mctest.Fault{Lose: true})
	require.NoError(t, c.Send([]byte("delete k\r\n")))
	require.NoError(t, c.CloseWrite())
	nothing, err := c.Rest()
	require.NoError(t, err)
	require.Empty(t, nothing)
	value, _ := s.Get("k")
	require.Equal(t, "abc", value)

	for _, reset := range []bool{false, true} {
		p.Inject(mctest.Fault{})
		c := mctest.MustDial(t, p.Addr())
		c.MustDo(t, "get k\r\n")
		p.Inject(mctest.Fault{Cut: 10, Reset: reset})
		require.NoError(t, c.Send([]byte("get k\r\n")))
		rest, err := c.Rest()
		require.NoError(t, err)
		require.LessOrEqual(t, len(rest), 10)
		require.True(t, strings.HasPrefix(hit, rest))
	}

	p.Inject(mctest.Fault{Refuse: true})
	refused, err := mctest.Dial(p.Addr())
	if err != nil {
		require.ErrorIs(t, err, syscall.ECONNRESET, "the reset came first")
		return
	}
	defer refused.Close()
	rest, err := refused.Rest()
	require.NoError(t, err)
	require.Empty(t, rest)
}
