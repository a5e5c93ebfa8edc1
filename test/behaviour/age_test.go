package behaviour_test

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
	"mcmw/internal/netstage"
)

// mover is a client that counts, now and then, and connects to any middleware when its connection ends.
type mover struct {
	key       string
	addresses *atomic.Pointer[[]string]
	count     int
}

// run counts until quit is closed. Every answer must be one more than the one before.
func (c *mover) run(quit <-chan struct{}) error {
	tick := time.NewTicker(500 * time.Millisecond) // a load, not a flood
	defer tick.Stop()
	var conn *mctest.Client
	defer func() {
		if conn != nil {
			conn.Close()
		}
	}()
	for {
		if conn == nil {
			all := *c.addresses.Load()
			var err error
			if conn, err = mctest.Dial(all[rand.IntN(len(all))]); err != nil {
				return err
			}
		}
		// A write can fail on a connection that has ended; what there is to know is in what can be read.
		_ = conn.Send([]byte("incr " + c.key + " 1\r\n"))
		line, err := conn.Line()
		switch {
		case errors.Is(err, io.EOF) && line == "": // it was not done
			conn.Close()
			conn = nil
			continue
		case err != nil:
			return fmt.Errorf("%s: %w", c.key, err)
		}
		if c.count++; line != fmt.Sprint(c.count) {
			return fmt.Errorf("%s: received %q, expected %d", c.key, line, c.count)
		}
		select {
		case <-quit:
			return nil
		case <-tick.C:
		}
	}
}

func TestAfterThreeMiddlewaresAreAddedToOneTheirConnectionsDifferByAFifthAtMostAndNoClientSeesAnError(t *testing.T) {
	const clients = 1000
	server := mctest.StartMemcached(t)
	start := func() *mwtest.MW {
		return mwtest.Start(t, middleware.Options{Servers: mwtest.Servers(server), ClientOptions: netstage.ClientOptions{MaxAge: 4 * time.Second}})
	}
	all := []*mwtest.MW{start()}
	addresses := []string{all[0].Addr()}
	var current atomic.Pointer[[]string]
	current.Store(&addresses)
	quit, failed := make(chan struct{}), make(chan error, clients)
	var wg sync.WaitGroup
	setup := mctest.MustDial(t, server.Addr())
	for i := range clients {
		c := &mover{key: fmt.Sprintf("n%d", i), addresses: &current}
		require.Equal(t, "STORED\r\n", setup.MustDo(t, "set "+c.key+" 0 0 1\r\n0\r\n"))
		wg.Go(func() {
			if err := c.run(quit); err != nil {
				failed <- err
			}
		})
	}
	open := func() (of []int) {
		for _, m := range all {
			of = append(of, int(m.Stats().Snapshot().Open()))
		}
		return of
	}
	require.Eventually(t, func() bool { return open()[0] >= clients*9/10 }, mctest.Patience, 10*time.Millisecond)
	more := slices.Clone(addresses)
	for range 3 {
		m := start()
		all = append(all, m)
		more = append(more, m.Addr())
	}
	current.Store(&more)
	require.Eventually(t, func() bool {
		of := open()
		return slices.Min(of) > clients/8 && slices.Max(of)-slices.Min(of) <= clients/len(all)/5
	}, mctest.Patience, 10*time.Millisecond)
	t.Log("connections:", open())
	close(quit)
	wg.Wait()
	close(failed)
	for err := range failed {
		require.NoError(t, err)
	}
}
