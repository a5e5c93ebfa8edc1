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

// mover is a client that counts at intervals, and connects to a random middleware when its connection ends.
type mover struct {
	key       string
	addresses *atomic.Pointer[[]string]
	count     int
}

// run counts until quit is closed. Every answer must be one more than the previous one.
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
		// A write can fail on a connection that has ended; only reading tells whether the request was answered.
		_ = conn.Send([]byte("incr " + c.key + " 1\r\n"))
		line, err := conn.Line()
		switch {
		case errors.Is(err, io.EOF) && line == "": // the increment was not executed
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

// Connections end at random ages. The test therefore compares how many connections each middleware accepted, not how
// many are open at some moment.
func TestThreeMiddlewaresAddedToOneGetConnectionsThatDifferByAFifthAtMostAndNoClientSeesAnError(t *testing.T) {
	const clients = 1000
	server := mctest.StartMemcached(t)
	start := func() *mwtest.MW {
		return mwtest.Start(t, middleware.Options{
			Servers:       mwtest.Servers(server),
			ClientOptions: netstage.ClientOptions{MaxAge: 4 * time.Second},
		})
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
	require.Eventually(t, func() bool { return all[0].Stats().Snapshot().Open() >= clients*9/10 }, mctest.Patience,
		10*time.Millisecond)
	more := slices.Clone(addresses)
	for range 3 {
		m := start()
		all = append(all, m)
		more = append(more, m.Addr())
	}
	before := all[0].Stats().Snapshot().Opened
	current.Store(&more)
	var opened []uint64
	require.Eventually(t, func() bool {
		opened = []uint64{all[0].Stats().Snapshot().Opened - before}
		for _, m := range all[1:] {
			opened = append(opened, m.Stats().Snapshot().Opened)
		}
		return slices.Min(opened) > clients/4 && slices.Max(opened)-slices.Min(opened) <= slices.Min(opened)/5
	}, mctest.Patience, 10*time.Millisecond)
	t.Log("connections:", opened)
	close(quit)
	wg.Wait()
	close(failed)
	for err := range failed {
		require.NoError(t, err)
	}
}
