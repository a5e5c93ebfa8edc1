package behaviour_test

import (
	"fmt"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
)

// TestTheOrderCheckDetectsFaults connects one client of the order test directly to memcached, injects faults that no
// middleware may have, and expects an error.
func TestTheOrderCheckDetectsFaults(t *testing.T) {
	shared := &sharedKeys{}
	for i := range shared.values {
		shared.values[i] = fmt.Sprintf("s%d", i)
	}
	for i := range shared.counters {
		shared.counters[i] = fmt.Sprintf("n%d", i)
	}
	tag := tagged{most: sharedFiller}
	// put stores the value that writer would store with number seq for key under every shared key; key "" means the
	// right key.
	put := func(t *testing.T, s *mctest.Server, key string, writer, seq int) {
		c := mctest.MustDial(t, s.Addr())
		for _, name := range shared.values {
			value := tag.appendValue(nil, either(key == "", name, key), writer, seq)
			c.MustDo(t, fmt.Sprintf("set %s %d 0 %d\r\n%s\r\n", name, writer, len(value), value))
		}
	}
	// look gets all keys.
	look := func(c *orderClient) error {
		b := c.next()
		for i := range c.own {
			b.begin()
			b.send("gets ", c.own[i].name, "\r\n")
			b.expectValue(&c.own[i], true)
			b.reply(false, "END\r\n")
		}
		for i := range shared.values {
			b.begin()
			b.send("get ")
			c.askShared(b, i, expectShared)
			b.send("\r\n")
			b.reply(false, "END\r\n")
		}
		for i := range shared.counters {
			b.begin()
			b.send("get ", shared.counters[i], "\r\n")
			b.expect(expect{kind: expectCounter, shared: i})
			b.reply(false, "END\r\n")
		}
		if err := c.send(b); err != nil {
			return err
		}
		return c.verify()
	}
	const me, other = 1, 3
	faults := []struct {
		name  string
		do    func(t *testing.T, p *mctest.Proxy, s *mctest.Server, c *orderClient)
		wants string
	}{
		{"replies come twice", func(_ *testing.T, p *mctest.Proxy, _ *mctest.Server, _ *orderClient) {
			p.Inject(mctest.Fault{Double: true})
		}, "received"},
		{"own keys are lost", func(t *testing.T, _ *mctest.Proxy, s *mctest.Server, c *orderClient) {
			for i := range c.own {
				mctest.MustDial(t, s.Addr()).MustDo(t, "delete "+c.own[i].name+"\r\n")
			}
		}, `received "END`},
		{"an own key is written by somebody", func(t *testing.T, _ *mctest.Proxy, s *mctest.Server, c *orderClient) {
			for i := range c.own {
				k := &c.own[i]
				mctest.MustDial(t, s.Addr()).MustDo(t,
					fmt.Sprintf("replace %s %d 0 %d\r\n%s\r\n", k.name, k.flags, len(k.value), k.value))
			}
		}, "it was not changed since"},
		{"a value is another key's", func(t *testing.T, _ *mctest.Proxy, s *mctest.Server, _ *orderClient) {
			put(t, s, "another", other, 1_000_000)
		}, "not with its key"},
		{
			"an own value that was overwritten comes back",
			func(t *testing.T, _ *mctest.Proxy, s *mctest.Server, _ *orderClient) {
				put(t, s, "", me, 0)
			}, "is the connection's own",
		},
		{
			"a value is older than one that was seen",
			func(t *testing.T, _ *mctest.Proxy, s *mctest.Server, c *orderClient) {
				put(t, s, "", other, 1_000_000)
				require.NoError(t, look(c))
				put(t, s, "", other, 999_999)
			}, "had seen count 1000000",
		},
		{"an increment is lost", func(t *testing.T, _ *mctest.Proxy, s *mctest.Server, _ *orderClient) {
			mctest.MustDial(t, s.Addr()).MustDo(t, fmt.Sprintf("set n0 0 0 10\r\n%d\r\n", counterStart))
		}, "an earlier increment"},
	}
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			s := mctest.StartMemcached(t)
			for _, name := range shared.counters {
				mctest.MustDial(t, s.Addr()).MustDo(t, fmt.Sprintf("set %s 0 0 10\r\n%d\r\n", name, counterStart))
			}
			p := mctest.StartProxy(t, s.Addr())
			conn, err := net.Dial("tcp", p.Addr())
			require.NoError(t, err)
			defer conn.Close()
			c := newOrderClient(conn, "0", me, orderConnections, shared, 1)
			require.NoError(t, c.run(2000))
			require.NoError(t, look(c))
			f.do(t, p, s, c)
			err = look(c)
			if err == nil {
				err = c.leave()
			}
			require.ErrorContains(t, err, f.wants)
		})
	}
}
