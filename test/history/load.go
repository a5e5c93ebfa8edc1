package history

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// keyspace is the keys of all clients.
type keyspace struct {
	prefix  string
	owners  []owner
	grouped func(key string) bool // Options.Grouped
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
func newKeyspace(prefix string, groups []int, grouped func(key string) bool) *keyspace {
	k := &keyspace{prefix: prefix, owners: make([]owner, len(groups)), grouped: grouped}
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
		if k.grouped == nil || k.grouped(key) == (k.owners[id].group == 1) {
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

// Manners describe how clients treat the end of a connection.
type Manners struct {
	// Resend: mcmw promises that when a connection ends in an orderly way between two replies, the unanswered requests
	// were not done. The client repeats them on its next connection and keeps its keys.
	Resend bool
	// Restarts: the service is restarted during the load and refuses connections meanwhile.
	Restarts bool
	// Kills: connections can end in any way; then unanswered requests count as failed, not as lost.
	Kills bool
	// LogsIn: connections begin with a login.
	LogsIn bool
}

// Options describe a load.
type Options struct {
	// Addrs are the addresses of the service, host:port: one, or those of several middlewares in front of the same
	// servers.
	Addrs   []string
	Clients int // connections; each connects to the addresses in turn
	Rate    int // requests per second, of all together
	// SharedClients is how many clients use every address and write the same keys, SharedRate requests per second
	// together; 0: none.
	SharedClients int
	SharedRate    int
	Contests      int    // how many of 20 requests of these clients are contests; 0: one
	Seed          uint64 // selects the sequence of requests
	Prefix        string // of all keys
	Large         bool   // one value in six is large
	// Grouped divides the clients into two groups: every second one has only keys for which it is true, the others have
	// none of these. nil: they are not divided.
	Grouped func(key string) bool
	// Hot makes most reads those of the first keys of a few clients, so that middlewares answer them from memory. In a
	// fleet a middleware may answer with a value as old as Age, unless the key has been written through this middleware
	// since.
	Hot bool
	Age time.Duration
	Manners
}

// Load is a running load with its judge.
type Load struct {
	Manners
	keys   *keyspace
	tally  *tally
	shared *shared // nil: no keys are shared
	quit   chan struct{}
	wg     sync.WaitGroup
}

// Start starts the clients.
func Start(o Options) *Load {
	if o.Large {
		o.Prefix = largeKeys + o.Prefix
	}
	groups := make([]int, o.Clients)
	for i := range groups {
		if o.Grouped != nil {
			groups[i] = i % 2
		}
	}
	keys := newKeyspace(o.Prefix, groups, o.Grouped)
	keys.hot = o.Hot
	if keys.fleet = len(o.Addrs) > 1; keys.fleet {
		keys.age = o.Age
	}
	start := time.Now()
	l := &Load{Manners: o.Manners, keys: keys, tally: newTally(start), quit: make(chan struct{})}
	l.tally.kills, l.tally.grouped = o.Kills, o.Grouped != nil
	for id := range o.Clients {
		c := &client{
			id: id, group: groups[id], addrs: o.Addrs,
			period: time.Second * time.Duration(o.Clients) / time.Duration(o.Rate),
			rng:    rand.New(rand.NewPCG(o.Seed, uint64(id))), keys: keys, tally: l.tally, quit: l.quit,
			Manners: o.Manners,
		}
		l.wg.Go(func() { c.run(start) })
	}
	if o.SharedClients > 0 {
		l.shared = startShared(o, keys)
	}
	return l
}

// Begin starts phase p now.
func (l *Load) Begin(p Phase) time.Time { return l.tally.begin(p) }

// Progress returns how many requests have succeeded so far, those for shared keys apart. With failed those that have
// failed count, too.
func (l *Load) Progress(failed bool) (reads, writes, shared uint64) {
	l.tally.mu.Lock()
	for p := range numPhases {
		reads += l.tally.reads[p].Succeeded
		writes += l.tally.writes[p].Succeeded
		if failed {
			reads, writes = reads+l.tally.reads[p].Failed, writes+l.tally.writes[p].Failed
		}
	}
	l.tally.mu.Unlock()
	if l.shared != nil {
		l.shared.mu.Lock()
		defer l.shared.mu.Unlock()
		if shared = l.shared.counts.Requests; failed {
			shared += l.shared.counts.Failed
		}
	}
	return reads, writes, shared
}

// Keys returns all keys that have been in use, but those of contests.
func (l *Load) Keys() (keys []string) {
	l.keys.mu.Lock()
	defer l.keys.mu.Unlock()
	for _, r := range l.keys.all {
		keys = append(keys, r.key)
	}
	if l.shared != nil {
		for _, r := range l.shared.registers {
			keys = append(keys, r.key)
		}
		for _, n := range slices.Concat(l.shared.counters, l.shared.swaps) {
			keys = append(keys, n.key)
		}
	}
	return keys
}

// Stop ends the sending and waits for outstanding answers.
func (l *Load) Stop() {
	close(l.quit)
	l.wg.Wait()
	if l.shared != nil {
		l.shared.stop()
	}
}

// AuditShared reads every shared key through all addresses and judges the values. Nothing may write meanwhile. nil: no
// keys are shared.
func (l *Load) AuditShared() *Shared {
	if l.shared == nil {
		return nil
	}
	counts := l.shared.audit()
	return &counts
}

// FailedRead is the error of Audit for a read that was answered with an error line.
type FailedRead struct{ request, line string }

func (e *FailedRead) Error() string { return e.request + ": " + e.line }

// Audit reads every key from addr, rounds times, and checks the values. Nothing may write meanwhile. It ends at the
// first read that fails.
func (l *Load) Audit(ctx context.Context, addr string, rounds int) error {
	dialer := net.Dialer{Timeout: AnswerWithin}
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if l.LogsIn {
		if err := LogIn(conn); err != nil {
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
			_ = conn.SetDeadline(o.due.Add(AnswerWithin))
			if _, err := conn.Write(o.append(nil)); err != nil {
				return err
			}
			result := r.answer(o)
			l.tally.audit(result)
			switch {
			case result.lost:
				return fmt.Errorf("%s: %s", o, result.failure)
			case result.failure != "":
				return &FailedRead{o.String(), result.failure}
			}
		}
	}
	return nil
}
