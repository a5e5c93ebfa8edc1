package worker_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
	"mcmw/internal/route"
	"mcmw/internal/worker"
)

// Bytes that a server sends between rounds answer no request: the connection is closed before another client's reply is
// read from it.
func TestASurplusReplyThatArrivesLateAnswersNoRequest(t *testing.T) {
	send, sent := make(chan struct{}), make(chan struct{})
	script := mctest.StartScript(t, func(p *mctest.Peer) {
		p.Answer(func(line string) string {
			switch line {
			case "version":
				return "VERSION 1\r\n"
			case "stats":
				return "STAT uptime 1\r\nEND\r\n"
			case "delete k":
				go func() {
					<-send
					p.Send("VALUE k 0 3\r\nbad\r\nEND\r\n")
					close(sent)
				}()
				return "DELETED\r\n"
			case "get k":
				return "VALUE k 0 4\r\ngood\r\nEND\r\n"
			}
			return ""
		})
	})
	m := mwtest.Start(t, middleware.Options{Servers: mwtest.Named(script.Addr()), Workers: 1})
	require.Equal(t, "DELETED\r\n", m.Dial(t).MustDo(t, "delete k\r\n"))
	other := m.Dial(t)
	require.Equal(t, "MN\r\n", other.MustDo(t, "mn\r\n")) // now its connection exists
	close(send)
	<-sent
	require.Equal(t, "VALUE k 0 4\r\ngood\r\nEND\r\n", other.MustDo(t, "get k\r\n"))
}

// The first reply existed before the request. The second STORED is the reply to the request, so it is not known what
// the server stored.
func TestAWriteCountsAsMissedIfTheServerThenSendsASurplusReply(t *testing.T) {
	deleted := make(chan struct{})
	script := mctest.StartScript(t, func(p *mctest.Peer) {
		p.Answer(func(line string) string {
			switch line {
			case "version":
				return "VERSION 1\r\n"
			case "set k 0 0 1":
				p.Line()
				return "STORED\r\nSTORED\r\n"
			case "delete k":
				close(deleted)
				return "DELETED\r\n"
			case "mn":
				return "MN\r\n"
			}
			return "EN\r\n"
		})
	})
	m := mwtest.Start(t, middleware.Options{Servers: mwtest.Named(script.Addr()), Workers: 1})
	require.Equal(t, "STORED\r\n", m.Dial(t).MustDo(t, "set k 0 0 1\r\nx\r\n"))
	select {
	case <-deleted:
	case <-time.After(mctest.Patience):
		t.Fatal("the key is not deleted on the server that may hold any value of it")
	}
}

// A worker continues with a server that stalls in the middle of its reply after other servers have answered the same
// request.
func TestValuesThatArriveInPartsAreNotLostWhenAnotherServerAnswersBetween(t *testing.T) {
	var m *mwtest.MW
	stalls := func() uint64 { return m.Stats().Snapshot().Servers[0].Health.Stalls }
	// number of stalls before the request: on a busy machine the server may stall before it reads the request
	var before atomic.Uint64
	o := middleware.Options{Workers: 1, RequestOptions: worker.RequestOptions{StallAfter: 10 * time.Millisecond}}
	o.Placement.Replicas = 1
	script := func(s int) *mctest.Script {
		return mctest.StartScript(t, func(p *mctest.Peer) {
			p.Answer(func(line string) (reply string) {
				keys := strings.Fields(line)[1:]
				if line[0] != 'g' {
					return ""
				}
				for k, key := range keys {
					reply += "VALUE " + key + " 0 1\r\nx\r\n"
					if s == 0 && k == 0 {
						p.Send(reply)
						reply = ""
						require.Eventually(t, func() bool { return stalls() > before.Load() }, mctest.Patience,
							mctest.Tick)
					}
				}
				return reply + "END\r\n"
			})
		})
	}
	addrs := []string{script(0).Addr(), script(1).Addr()}
	o.Servers = mwtest.Named(addrs...)
	m = mwtest.Start(t, o)
	router, err := route.New(o.Servers, o.Placement)
	require.NoError(t, err)
	var keys [2][]string
	for i := 0; len(keys[0]) < 3 || len(keys[1]) < 3; i++ {
		key := fmt.Sprintf("%d-key", i)
		s := router.Primary([]byte(key))
		keys[s] = append(keys[s], key)
	}
	c := dial(t, m.Addr())
	for range 4 { // the server that is read first changes from round to round
		asked := []string{keys[0][0], keys[1][0], keys[0][1], keys[1][1], keys[0][2], keys[1][2]}
		want := ""
		for _, key := range asked {
			want += "VALUE " + key + " 0 1\r\nx\r\n"
		}
		before.Store(stalls())
		require.Equal(t, want+"END\r\n", c.ask("get "+strings.Join(asked, " ")+"\r\n", 13))
	}
}
