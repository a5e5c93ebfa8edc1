package netstage_test

import (
	"bufio"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
	"mcmw/internal/netstage"
	"mcmw/internal/request"
	"mcmw/internal/stats"
)

func TestADrainEndsAClientThatNeverPausesBetweenTwoOfItsRequests(t *testing.T) {
	t.Cleanup(netstage.SetReadingPart(1000)) // set before the middleware, which ends first
	endWithoutPause(t, middleware.Options{DrainTimeout: mctest.Patience},
		func(m *mwtest.MW) { require.NoError(t, m.Stop()) }, stats.CloseShutdown)
}

func TestAConnectionThatIsTooOldEndsBetweenTwoRequestsOfAClientThatNeverPauses(t *testing.T) {
	t.Cleanup(netstage.SetAgePatience(time.Millisecond))
	o := middleware.Options{ClientOptions: netstage.ClientOptions{MaxAge: 2 * time.Second}}
	endWithoutPause(t, o, func(*mwtest.MW) {}, stats.CloseAge)
}

func TestADrainEndsAClientThatReadsNothingAndWhoseLastRequestsAreRefused(t *testing.T) {
	m := startBound(t, mctest.StartMemcached(t), middleware.Options{DrainTimeout: time.Millisecond})
	bert := mctest.MustDial(t, m.Addr())
	require.NoError(t, bert.Authenticate("bert", "pass:word"))
	value := strings.Repeat("v", 1_000_000)
	require.Equal(t, "STORED\r\n", bert.MustDo(t, "set cart, 0 0 1000000\r\n"+value+"\r\n"))
	// One read brings three batches: the first has more replies than sockets hold, the second waits for it, and the
	// third names a foreign key, which is logged when the second has been given up.
	require.NoError(t, bert.Conn.(*net.TCPConn).SetReadBuffer(4096))
	const gets = 30
	require.NoError(t, bert.Send([]byte(strings.Repeat("get cart,\r\n", gets)+
		strings.Repeat("mn\r\n", 2*request.MaxBatch-gets)+"get other\r\n")))
	require.Eventually(t, func() bool { return m.Stats().Snapshot().ReplyMemory > 0 }, mctest.Patience, mctest.Tick)
	require.NoError(t, m.Stop())
	require.EqualValues(t, 1, m.Stats().Snapshot().ForeignKeys)
}

// endWithoutPause calls end while a client sends pipelines of incr and reads the replies later. It checks that the
// connection ends between two replies, for the given reason.
func endWithoutPause(t *testing.T, o middleware.Options, end func(*mwtest.MW), reason stats.CloseReason) {
	t.Helper()
	const pipeline = 1000
	server := mctest.StartMemcached(t)
	o.Servers = mwtest.Servers(server)
	m := mwtest.Start(t, o)
	c := m.Dial(t)
	require.Equal(t, "STORED\r\n", c.MustDo(t, "set n 0 0 1\r\n0\r\n"))
	go func() {
		for requests := []byte(strings.Repeat("incr n 1\r\n", pipeline)); ; {
			if _, err := c.Conn.Write(requests); err != nil {
				return
			}
		}
	}()
	served := make(chan struct{})
	var last, rest string
	var err error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r := bufio.NewReader(c.Conn)
		for n := 0; ; n++ {
			if rest, err = r.ReadString('\n'); err != nil {
				return
			}
			last = strings.TrimSpace(rest)
			if n == pipeline {
				close(served)
			}
		}
	}()
	select {
	case <-served:
	case <-ended: // sooner
	}
	end(m)
	<-ended
	require.ErrorIs(t, err, io.EOF, "an orderly end, not a reset")
	require.Empty(t, rest, "the end is between two replies")
	require.Eventually(t, func() bool { return closed(m, reason) == 1 }, mctest.Patience, mctest.Tick)
	counted, _ := server.Get("n")
	require.Equal(t, counted, last, "everything that was done is answered")
}
