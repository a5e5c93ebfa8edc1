package behaviour_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
	"mcmw/internal/route"
)

// An add that finds the key evicted on one replica is repaired. A conditional write after it, in the same batch, is
// copied to the other replicas in the same pass.
func TestARepairAndAConditionalWriteOfOneRoundLeaveReplicasEqual(t *testing.T) {
	servers := mwtest.Servers(mctest.StartMemcacheds(t, 3)...)
	router, err := route.New(servers, route.Options{})
	require.NoError(t, err)
	m := mwtest.Start(t, middleware.Options{Servers: servers, Workers: 1})
	c := m.Dial(t)
	// The server whose replies are read first changes with every round, so there are several rounds.
	for i := range 12 {
		for _, conditional := range []string{
			"cas %s 0 0 1 %s\r\ny\r\n", "ms %s 1 C%s\r\ny\r\n", "ma %s C%s\r\n",
			"md %s C%s\r\n",
		} {
			key := fmt.Sprintf("%d-%.2s", i, conditional)
			c.MustDo(t, "set "+key+" 0 0 1\r\n5\r\n")
			items, err := mctest.ParseValues(c.MustDo(t, "gets "+key+"\r\n"))
			require.NoError(t, err)
			evicted := servers[router.Replicas([]byte(key), nil)[1+i%2]]
			mctest.MustDial(t, evicted.Addr).MustDo(t, "delete "+key+"\r\n")
			require.NoError(t, c.Send([]byte("add "+key+" 0 0 1\r\nx\r\n"+fmt.Sprintf(conditional, key, items[0].Cas))))
			c.MustReply(t)
			c.MustReply(t)
			lines, _ := differing(t, servers, route.Options{}, []string{key})
			assert.Empty(t, lines, conditional)
		}
	}
}
