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
	// place returns the server that holds a key, -1 where that doesn't matter.
	place func(key string) int
	// accept reports whether a client of a group may have keys on a server.
	accept func(group, server int) bool
	// fleet: several middlewares serve them. Reads of different replicas may go back then while a write is under way.
	fleet bool
	// hot: most reads are of the first keys of few clients, so that middlewares answer them from memory. One of a fleet may answer with what it held so
	// long ago as age, unless that was written through itself since.
	hot bool
	age time.Duration

	mu  sync.Mutex
	all []*record // guarded by mu: all that there ever were
}

// countEvery is how many keys of a client come to one counter.
const countEvery = 12

// owner is the keys of one client.
type owner struct {
	group   int
	current atomic.Pointer[[]*record]
}

// newKeyspace returns the keys of as many clients as groups has entries.
func newKeyspace(prefix string, groups []int, place func(key string) int, accept func(group, server int) bool) *keyspace {
	k := &keyspace{prefix: prefix, owners: make([]owner, len(groups)), place: place, accept: accept}
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
		server := k.place(key)
		if k.accept(k.owners[id].group, server) {
			own = append(own, &record{key: key, server: server, counts: len(own)%countEvery == countEvery-1, fleet: k.fleet, age: k.age})
		}
	}
	k.owners[id].current.Store(&own)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.all = append(k.all, own...)
	return own
}

// hotOwners is how many clients have a hot key, where there are any: as many as there are groups at most.
const hotOwners = 2

// draw returns any key of any client of the group that can be read.
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

// load is the requests of all clients.
type load struct {
	keys  *keyspace
	tally *tally
	quit  chan struct{}
	wg    sync.WaitGroup
	manners
}

// manners say how clients treat the end of a connection.
type manners struct {
	// resend: when a connection ends in an orderly way between two replies, unanswered requests were not done (mcmw promises
	// that), and are repeated on the next connection, which keeps the keys.
	resend bool
	// restarts: the service is restarted, and refuses connections meanwhile.
	restarts bool
	// kills: connections may end in any way. Unanswered requests have then failed, and are not lost.
	kills bool
	// logsIn: connections begin with a login.
	logsIn bool
}

// startLoad starts clients that together send rate requests per second. Each connects to the addresses in turn.
func startLoad(addrs []string, rate int, keys *keyspace, seed uint64, m manners) *load {
	start := time.Now()
	l := &load{keys: keys, tally: newTally(start), quit: make(chan struct{}), manners: m}
	l.tally.kills = m.kills
	clients := len(keys.owners)
	for id := range clients {
		c := &client{
			id: id, group: keys.owners[id].group, addrs: addrs, period: time.Second * time.Duration(clients) / time.Duration(rate),
			rng: rand.New(rand.NewPCG(seed, uint64(id))), keys: keys, tally: l.tally, quit: l.quit, manners: m,
		}
		l.wg.Go(func() { c.run(start) })
	}
	return l
}

// stop ends sending and waits for outstanding answers.
func (l *load) stop() {
	close(l.quit)
	l.wg.Wait()
}

// audit reads every key from addr, rounds times, and checks the values. There must be no writes meanwhile.
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
		for _, one := range l.keys.all {
			if one.counts {
				continue
			}
			o := &op{due: time.Now(), keys: []*record{one}, floors: []uint64{one.floor(time.Now(), -1)}}
			if err := conn.SetDeadline(o.due.Add(answerWithin)); err != nil {
				return err
			}
			if _, err := conn.Write(o.append(nil)); err != nil {
				return err
			}
			result := r.answer(o)
			l.tally.audit(result)
			if result.failure != "" {
				return fmt.Errorf("%s: %s", o, result.failure)
			}
		}
	}
	return nil
}
