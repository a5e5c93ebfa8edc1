package netstage_test

import (
	"bufio"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
	"mcmw/internal/netstage"
	"mcmw/internal/stats"
)

func TestADrainEndsAClientThatNeverPausesBetweenTwoOfItsRequests(t *testing.T) {
	const pipeline = 1000
	t.Cleanup(netstage.SetReadingPart(1000)) // set before the middleware, which ends first
	server := mctest.StartMemcached(t)
	m := mwtest.Start(t, middleware.Options{Servers: mwtest.Servers(server), DrainTimeout: mctest.Patience})
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
	<-served
	require.NoError(t, m.Stop())
	<-ended
	require.ErrorIs(t, err, io.EOF, "the end, not a reset")
	require.Empty(t, rest, "it is between two replies")
	require.EqualValues(t, 1, closed(m, stats.CloseShutdown))
	counted, _ := server.Get("n")
	require.Equal(t, counted, last, "everything that was done is answered")
}
