package middleware_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
	"mcmw/internal/route"
)

// A batch waits for a server, and then has to go to another queue. That queue must not be closed before.
func TestAChangeOfServersWaitsForABatchThatPassesFromQueueToQueue(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{}, 1)
	silent := answersUntil(t, "get ", func(p *mctest.Peer) {
		asked <- struct{}{}
		p.Stall()
	})
	o := middleware.Options{
		Listen: []string{"127.0.0.1:0"}, Servers: mwtest.Named(silent.Addr(), mctest.StartMemcached(t).Addr()),
		Placement: route.Options{Replicas: 1}, Writers: middleware.WritersOne,
	}
	o.Timeout, o.WorkerPool = time.Second, middleware.WorkersPerServer
	router, err := route.New(o.Servers, o.Placement)
	require.NoError(t, err)
	var keys [2]string // by server
	for n := 0; keys[0] == "" || keys[1] == ""; n++ {
		key := fmt.Sprintf("key-%d", n)
		keys[router.Primary([]byte(key))] = key
	}
	m := mwtest.Start(t, o)
	client := m.Dial(t)
	require.NoError(t, client.Send([]byte("get "+keys[0]+"\r\nget "+keys[1]+"\r\n")))
	<-asked
	o.Servers = append(o.Servers, mwtest.Named(mctest.StartMemcached(t).Addr())...)
	o.Servers[2].Name = "server-3"
	require.NoError(t, m.Apply(t.Context(), o))
	require.Contains(t, client.MustReply(t), "SERVER_ERROR ", "its server has not replied within the timeout")
	require.Equal(t, "END\r\n", client.MustReply(t))
}
