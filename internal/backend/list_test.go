package backend_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/backend"
	"mcmw/internal/link"
	"mcmw/internal/mctest"
	"mcmw/internal/protocol"
)

func patientServer(addr string) *backend.Server {
	return newServer(addr, backend.Options{ServerOptions: backend.ServerOptions{ConnectTimeout: mctest.Patience}})
}

// listed returns the keys listed from a server that sends answers to successive requests for a list.
func listed(t *testing.T, answers ...string) (keys []string, err error) {
	t.Helper()
	script := mctest.StartScript(t, func(p *mctest.Peer) {
		for _, answer := range answers {
			if _, ok := p.Line(); !ok {
				return
			}
			p.SendBytewise(answer)
		}
	})
	server := patientServer(script.Addr())
	err = server.List(t.Context(), false, func(item protocol.Dumped) error {
		keys = append(keys, fmt.Sprintf("%q la %d cas %d", item.Key, item.Accessed, item.CAS))
		return nil
	})
	return keys, err
}

func TestTheListOfAServersKeysIsReadInAllItsForms(t *testing.T) {
	const busy = "BUSY currently processing crawler request\r\n"
	const one = "key=a%20key exp=-1 la=5 cas=7 fetch=no cls=1 size=63 flags=0\nEND\r\n"
	for name, tc := range map[string]struct {
		answers []string
		want    []string
		err     string
	}{
		"nothing":                      {[]string{"END\r\n"}, nil, ""},
		"an item":                      {[]string{one}, []string{`"a key" la 5 cas 7`}, ""},
		"from a server without `hash`": {[]string{"ERROR\r\n", one}, []string{`"a key" la 5 cas 7`}, ""},
		"while another one is made":    {[]string{busy, busy, one}, []string{`"a key" la 5 cas 7`}, ""},
		"of a middleware": {
			[]string{"key=mcmw%20placement la=5\nkey=mcmw la=6 cas=1\nEND\r\n"},
			[]string{`"mcmw" la 6 cas 1`},
			"",
		},
		"without the crawler": {[]string{
			"CLIENT_ERROR lru crawler disabled\r\n",
			"CLIENT_ERROR lru crawler disabled\r\n",
		}, nil, "lru crawler disabled"},
		"from an old server": {[]string{"ERROR\r\n", "ERROR\r\n"}, nil, "(ERROR)"},
		"broken off":         {[]string{"key=a la=5 cas=7\n"}, []string{`"a" la 5 cas 7`}, "EOF"},
		"with an error after an item": {
			[]string{"key=a la=5 cas=7\nSERVER_ERROR out of memory\r\n"},
			[]string{`"a" la 5 cas 7`},
			"SERVER_ERROR",
		},
		"with a key that can't be read":  {[]string{"key=%zz la=5 cas=7\nEND\r\n"}, nil, "key=%zz"},
		"with a line that does not end":  {[]string{"key=" + string(make([]byte, 10_000))}, nil, "a line of more than"},
		"where the first line is broken": {[]string{"key=\nEND\r\n"}, nil, `"key="`},
	} {
		t.Run(name, func(t *testing.T) {
			keys, err := listed(t, tc.answers...)
			assert.Equal(t, tc.want, keys)
			if tc.err == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, tc.err)
			}
		})
	}
	_, err := listed(t, "ERROR\r\n", "ERROR\r\n")
	require.ErrorIs(t, err, backend.ErrNoList)
}

func TestTheEndOfTheContextEndsAList(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	script := mctest.StartScript(t, func(p *mctest.Peer) {
		p.Line()
		p.Send("key=a la=5 cas=7\n")
		p.Stall()
	})
	server := patientServer(script.Addr())
	require.Error(t, server.List(ctx, false, func(protocol.Dumped) error {
		cancel()
		return nil
	}))
}

func TestAListIsReadForLongerThanTheTimeoutOfAnExchange(t *testing.T) {
	const keys, rests, timeout = 20_000, 8, time.Second
	script := mctest.StartScript(t, func(p *mctest.Peer) {
		if _, ok := p.Line(); !ok {
			return
		}
		for k := range keys {
			p.Send(fmt.Sprintf("key=%0*d exp=-1 la=5 cas=7 fetch=no cls=1 size=63 flags=0\n", 30+k%7, k))
		}
		p.Send("END\r\n")
	})
	server := newServer(script.Addr(), backend.Options{ServerOptions: backend.ServerOptions{ConnectTimeout: timeout}})
	listed := 0
	require.NoError(t, server.List(t.Context(), false, func(protocol.Dumped) error {
		if listed++; listed%(keys/rests) == 0 {
			<-time.After(2 * timeout / rests) // as a caller that may not list more in a second
		}
		return nil
	}))
	require.Equal(t, keys, listed)
}

// While a list is not read on, a memcached before 1.6.19 keeps some items locked, if it walks its hash table.
func TestAReaderOfAListThatPausesCanHaveEveryItem(t *testing.T) {
	const keys, pipelined = 60_000, 1000 // a list of 14 MB, more than sockets hold
	key := func(k int) string { return fmt.Sprintf("%0200d", k) }
	memcached := mctest.StartMemcached(t)
	c := mctest.MustDial(t, memcached.Addr())
	for begin := 0; begin < keys; begin += pipelined {
		var sets bytes.Buffer
		for k := range pipelined {
			fmt.Fprintf(&sets, "set %s 0 0 1 noreply\r\nx\r\n", key(begin+k))
		}
		require.NoError(t, c.Send(sets.Bytes()))
	}
	require.Contains(t, c.MustDo(t, "version\r\n"), "VERSION")
	server := newServer(memcached.Addr(), backend.Options{
		ServerOptions: backend.ServerOptions{ConnectTimeout: 5 * time.Second},
	})
	found, errEnough := 0, errors.New("the list is not read on")
	err := server.List(t.Context(), true, func(protocol.Dumped) error {
		err := server.Talk(t.Context(), func(l *link.Link) error {
			return l.Ask(func(yield func(protocol.Op) bool) {
				for k := 0; k < keys && yield(link.Key(key(k)).Ask(protocol.ForVersion)); k++ {
				}
			}, nil, func(link.Reply) error {
				found++
				return nil
			})
		})
		return errors.Join(err, errEnough)
	})
	require.ErrorIs(t, err, errEnough)
	require.Equal(t, keys, found, "%v", err)
}
