package faults

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// keyspace is the keys of all clients.
type keyspace struct {
	prefix string
	owners []owner
	// onVictim reports whether the victim holds a key: clients of group 1 have only such keys, those of group 0 only
	// others. nil: clients are not grouped.
	onVictim func(key string) bool
	// fleet means that several middlewares serve the keys. Then a read can return an older value than an earlier read
	// of another replica while a write is in progress.
	fleet bool
	// hot makes most reads those of the first keys of a few clients, so that middlewares answer them from memory. In a
	// fleet a middleware may answer with a value as old as age, unless the key has been written through this middleware
	// since.
	hot bool
	age time.Duration

	mu  sync.Mutex
	all []*record // guarded by mu: every key that has been in use
}

// countEvery: one in so many keys of a client is a counter.
const countEvery = 12

// owner has the keys of one client.
type owner struct {
	group   int
	current atomic.Pointer[[]*record]
}

// newKeyspace returns keys for clients of the given groups.
func newKeyspace(prefix string, groups []int, onVictim func(key string) bool) *keyspace {
	k := &keyspace{prefix: prefix, owners: make([]owner, len(groups)), onVictim: onVictim}
	for i, g := range groups {
		k.owners[i].group = g
		k.renew(i, -1)
	}
	return k
}

// renew gives client id new keys.
func (k *keyspace) renew(id, generation int) []*record {
	var own []*record
	for n := 0; len(own) < keysPerClient; n++ {
		key := fmt.Sprintf("%s%d.%d-%d", k.prefix, id, generation+1, n)
		if k.onVictim == nil || k.onVictim(key) == (k.owners[id].group == 1) {
			own = append(own, &record{
				key: key, counts: len(own)%countEvery == countEvery-1, fleet: k.fleet,
				age: k.age,
			})
		}
	}
	k.owners[id].current.Store(&own)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.all = append(k.all, own...)
	return own
}

// hotOwners is how many clients have a hot key, if there are hot keys: one per group.
const hotOwners = 2

// draw returns a random readable key of a client of the group.
func (k *keyspace) draw(group int, rng *rand.Rand) *record {
	hot := k.hot && rng.IntN(4) > 0
	for {
		id := rng.IntN(len(k.owners))
		if hot {
			id %= hotOwners
		}
		if o := &k.owners[id]; o.group == group {
			own := *o.current.Load()
			if hot {
				return own[0]
			}
			if r := own[rng.IntN(len(own))]; !r.counts {
				return r
			}
		}
	}
}

// load is the load of all clients.
type load struct {
	keys  *keyspace
	tally *tally
	quit  chan struct{}
	wg    sync.WaitGroup
	manners
}

// manners describe how clients treat the end of a connection.
type manners struct {
	// resend: mcmw promises that when a connection ends in an orderly way between two replies, the unanswered requests
	// were not done. The client repeats them on its next connection and keeps its keys.
	resend bool
	// restarts: the service is restarted during the load and refuses connections meanwhile.
	restarts bool
	// kills: connections can end in any way; then unanswered requests count as failed, not as lost.
	kills bool
	// logsIn: connections begin with a login.
	logsIn bool
}

// startLoad starts clients that send rate requests per second together. Each connects to the addresses in turn.
func startLoad(addrs []string, rate int, keys *keyspace, seed uint64, m manners) *load {
	start := time.Now()
	l := &load{keys: keys, tally: newTally(start), quit: make(chan struct{}), manners: m}
	l.tally.kills = m.kills
	clients := len(keys.owners)
	for id := range clients {
		c := &client{
			id: id, group: keys.owners[id].group, addrs: addrs,
			period: time.Second * time.Duration(clients) / time.Duration(rate),
			rng:    rand.New(rand.NewPCG(seed, uint64(id))), keys: keys, tally: l.tally, quit: l.quit, manners: m,
		}
		l.wg.Go(func() { c.run(start) })
	}
	return l
}

// stop ends the sending and waits for outstanding answers.
func (l *load) stop() {
	close(l.quit)
	l.wg.Wait()
}

// failedRead is the error of audit for a read that was answered with an error line.
type failedRead struct{ request, line string }

func (e *failedRead) Error() string { return e.request + ": " + e.line }

// audit reads every key from addr, rounds times, and checks the values. Nothing may write meanwhile. It ends at the
// first read that fails.
func (l *load) audit(ctx context.Context, addr string, rounds int) error {
	dialer := net.Dialer{Timeout: answerWithin}
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if l.logsIn {
		if err := logIn(conn); err != nil {
			return err
		}
	}
	r := &reader{Reader: bufio.NewReaderSize(conn, 64<<10)}
	for range rounds {
		for _, key := range l.keys.all {
			if key.counts {
				continue
			}
			o := &op{due: time.Now(), keys: []*record{key}, floors: []uint64{key.floor(time.Now(), -1)}}
			_ = conn.SetDeadline(o.due.Add(answerWithin))
			if _, err := conn.Write(o.append(nil)); err != nil {
				return err
			}
			result := r.answer(o)
			l.tally.audit(result)
			switch {
			case result.lost:
				return fmt.Errorf("%s: %s", o, result.failure)
			case result.failure != "":
				return &failedRead{o.String(), result.failure}
			}
		}
	}
	return nil
}
