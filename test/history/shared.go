package history

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Shared are the results for keys that several clients write, each through any of the addresses.
type Shared struct {
	// Requests were answered with success. Failed ones were answered with an error, or their connection ended.
	Requests uint64 `json:"requests"`
	Failed   uint64 `json:"failed"`
	// Stale is how many reads returned a value that another write or deletion had replaced: this one began after the
	// value's write was answered and was itself answered before the read began. Wrong is how many reads returned a
	// value that was never written.
	Stale uint64 `json:"stale"`
	Wrong uint64 `json:"wrong"`
	// Increments and Swaps (a gets and a cas) were answered with success. Lost is how many of them the final values
	// lack. Twice is how many returned a number that another had returned. Gone is how many counters were missing,
	// although none is ever deleted.
	Increments uint64 `json:"increments"`
	Swaps      uint64 `json:"swaps"`
	Lost       uint64 `json:"lost"`
	Twice      uint64 `json:"twice"`
	Gone       uint64 `json:"gone"`
	// Contests are adds of one new key through all addresses at once. Exactly one of them should succeed.
	Contests       uint64 `json:"contests"`
	WithoutWinner  uint64 `json:"without_winner"`
	SeveralWinners uint64 `json:"several_winners"`
	// Differing is how many of the Compared keys were read with different values after all writes had ended.
	Compared  uint64 `json:"compared"`
	Differing uint64 `json:"differing"`

	Examples []string `json:"-"` // of violations and failures
}

const (
	// registers, counters and swaps are the number of keys of each kind: few, so that clients use the same ones at
	// once.
	registers = 16
	counters  = 4
	swaps     = 4
	// comparedReads is how often each key is read through each address after all writes have ended.
	comparedReads = 12
	// swapAttempts bounds the attempts at one swap.
	swapAttempts = 20
)

// shared is a load on keys that several clients write.
type shared struct {
	addrs     []string
	prefix    string
	start     time.Time
	registers []*register
	counters  []*number
	swaps     []*number
	stamp     atomic.Uint64 // number of the last value
	contest   atomic.Uint64 // number of the last contest
	contests  int           // of 20 requests
	hot       bool          // see keyspace
	age       time.Duration // see keyspace
	quit      chan struct{}
	wg        sync.WaitGroup

	mu     sync.Mutex
	counts Shared // guarded by mu
}

// register is a key that is set, deleted and read.
type register struct {
	key string

	mu sync.Mutex // guards all below
	// ended maps a write's number to the time of its answer, ns since the start; 0: not answered yet.
	ended map[uint64]int64
	acks  acks // of writes and deletions; the number of each is when it began, ns since the start
}

// number is a key with a value that only increases.
type number struct {
	key string

	mu      sync.Mutex // guards all below
	added   uint64     // successful requests
	unsure  uint64     // failed requests that may have taken effect
	seen    map[uint64]bool
	missing bool
}

// Counted returns the keys that clients of a load with this prefix increment, or swap.
func Counted(prefix string) (keys []string) {
	for n := range counters {
		keys = append(keys, fmt.Sprintf("%sshared-counter-%d", prefix, n))
	}
	for n := range swaps {
		keys = append(keys, fmt.Sprintf("%sshared-swap-%d", prefix, n))
	}
	return keys
}

// startShared starts the clients that share keys.
func startShared(o Options, keys *keyspace) *shared {
	s := &shared{
		addrs: o.Addrs, prefix: keys.prefix + "shared-", hot: keys.hot, age: keys.age, start: time.Now(),
		contests: max(o.Contests, 1), quit: make(chan struct{}),
	}
	for n := range registers {
		s.registers = append(s.registers,
			&register{key: fmt.Sprintf("%sregister-%d", s.prefix, n), ended: map[uint64]int64{}})
	}
	for i, key := range Counted(o.Prefix) {
		if n := (&number{key: key, seen: map[uint64]bool{}}); i < counters {
			s.counters = append(s.counters, n)
		} else {
			s.swaps = append(s.swaps, n)
		}
	}
	first := s.user(0, o.Seed)
	for _, n := range slices.Concat(s.counters, s.swaps) {
		if reply, err := first.ask(first.any(), "set "+n.key+" 0 0 1\r\n0\r\n"); err != nil || reply != "STORED" {
			n.missing = true // without its first value it cannot be judged
			s.failed(n.key+": "+reply, err)
		}
	}
	first.close()
	period := time.Second * time.Duration(o.SharedClients) / time.Duration(o.SharedRate)
	for id := range o.SharedClients {
		s.wg.Go(func() { s.user(id+1, o.Seed).run(period) })
	}
	return s
}

// stop ends sending and waits for outstanding answers.
func (s *shared) stop() {
	close(s.quit)
	s.wg.Wait()
}

// audit compares the values of every key over all addresses and returns the counts. It is called after stop.
func (s *shared) audit() Shared {
	last := s.user(-1, 0)
	defer last.close()
	for _, r := range s.registers {
		s.compare(last, r.key)
	}
	for _, n := range slices.Concat(s.counters, s.swaps) {
		values := s.compare(last, n.key)
		if n.missing || len(values) != 1 {
			continue
		}
		for text := range values {
			got, err := strconv.ParseUint(strings.TrimSpace(text), 10, 64)
			switch {
			case err != nil || got > n.added+n.unsure:
				s.broken(&s.counts.Wrong, "wrong: %s is %q after %d increments and %d with an unknown outcome", n.key,
					text, n.added, n.unsure)
			case got < n.added:
				s.broken(nil, "lost: %s is %d after %d increments", n.key, got, n.added)
				s.counts.Lost += n.added - got
			}
		}
	}
	return s.counts
}

// compare reads key through every address and returns the different values. Misses don't count.
func (s *shared) compare(u *user, key string) map[string]bool {
	values := map[string]bool{}
	for a := range s.addrs {
		for range comparedReads {
			if value, _, ok, err := u.value(a, "get", key); err != nil {
				s.failed("get "+key, err)
			} else if ok {
				values[value] = true
			}
		}
	}
	s.mu.Lock()
	s.counts.Compared++
	s.mu.Unlock()
	if len(values) > 1 {
		s.broken(&s.counts.Differing, "differs: %s has %d values after all writes have ended", key, len(values))
	}
	return values
}

// broken adds 1 to n, if that isn't nil, and keeps the description, with the time, as an example. Failures, which may
// be legal, are at most half of the examples.
func (s *shared) broken(n *uint64, format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n != nil {
		*n++
	}
	room := maxExamples
	if n == &s.counts.Failed || n == &s.counts.Gone || n == &s.counts.WithoutWinner {
		room /= 2
	}
	if len(s.counts.Examples) < room {
		s.counts.Examples = append(s.counts.Examples,
			time.Now().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
	}
}

// failed counts a failed request.
func (s *shared) failed(what string, err error) {
	if err != nil {
		what += ": " + err.Error()
	}
	s.broken(&s.counts.Failed, "failed: %s", what)
}

// succeeded counts a successful request, and adds 1 to n if that isn't nil.
func (s *shared) succeeded(n *uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts.Requests++
	if n != nil {
		*n++
	}
}

// now returns the time since the start, ns, at least 1.
func (s *shared) now() int64 { return int64(time.Since(s.start)) + 1 }

// run sends a request each period until quit is closed.
func (u *user) run(period time.Duration) {
	defer u.close()
	timer := time.NewTicker(period)
	defer timer.Stop()
	for {
		select {
		case <-u.quit:
			return
		case <-timer.C:
		}
		r := u.registers[u.rng.IntN(len(u.registers))]
		if u.rng.IntN(20) < u.contests {
			u.compete()
			continue
		}
		switch n := u.rng.IntN(19); {
		case n < 9:
			if u.hot && u.rng.IntN(4) > 0 {
				r = u.registers[0]
			}
			u.readRegister(r)
		case n < 13:
			u.write(r, fmt.Sprintf("set %s 7 0 ", r.key), u.stamp.Add(1))
		case n < 14:
			u.write(r, "delete "+r.key+"\r\n", 0)
		case n < 17:
			u.increment(u.counters[u.rng.IntN(len(u.counters))])
		default:
			u.swap(u.swaps[u.rng.IntN(len(u.swaps))])
		}
	}
}

// readRegister reads r and judges the value.
func (u *user) readRegister(r *register) {
	addr := u.any()
	floor := int64(r.acks.floor(time.Now(), addr, u.age))
	value, _, ok, err := u.value(addr, "get", r.key)
	if err != nil {
		u.failed("get "+r.key, err)
		return
	}
	u.succeeded(nil)
	if !ok {
		return
	}
	seq, whole := numberOf(r.key, []byte(value), nil)
	r.mu.Lock()
	ended, issued := r.ended[seq]
	r.mu.Unlock()
	switch {
	case !whole || !issued:
		u.broken(&u.counts.Wrong, "wrong: %s holds %.60q", r.key, value)
	case ended > 0 && ended < floor:
		u.broken(&u.counts.Stale,
			"stale: %s holds write %d; a later write, which began %.1f ms after the answer to this one, was answered "+
				"before the read",
			r.key, seq, float64(floor-ended)/1e6)
	}
}

// write sets r to value number seq; with seq 0 request is a deletion.
func (u *user) write(r *register, request string, seq uint64) {
	if seq > 0 {
		value := appendValue(nil, r.key, seq)
		request = fmt.Sprintf("%s%d\r\n%s\r\n", request, len(value), value)
		r.mu.Lock()
		r.ended[seq] = 0
		r.mu.Unlock()
	}
	began, addr := u.now(), u.any()
	line, err := u.ask(addr, request)
	if err != nil || (line != "STORED" && line != "DELETED" && line != "NOT_FOUND") {
		u.failed("a write of "+r.key+": "+line, err)
		return
	}
	ended := u.now()
	u.succeeded(nil)
	r.mu.Lock()
	defer r.mu.Unlock()
	if seq > 0 {
		r.ended[seq] = ended
	}
	r.acks.add(ack{uint64(began), time.Now(), addr})
}

// increment adds one to n.
func (u *user) increment(n *number) {
	line, err := u.ask(u.any(), "incr "+n.key+" 1\r\n")
	count, notNumber := strconv.ParseUint(line, 10, 64)
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.missing:
	case err == nil && line == "NOT_FOUND":
		u.lose(n)
	case err != nil || notNumber != nil:
		n.unsure++
		u.failed("incr "+n.key+": "+line, err)
	default:
		u.succeeded(&u.counts.Increments)
		n.added++
		if n.seen[count] {
			u.broken(&u.counts.Twice, "twice: two increments of %s returned %d", n.key, count)
		}
		n.seen[count] = true
	}
}

// lose marks n as gone: it is missing although it is never deleted. n.mu is held.
func (u *user) lose(n *number) {
	n.missing = true
	u.broken(&u.counts.Gone, "gone: %s is missing after %d increments", n.key, n.added)
}

// swap adds one to n by gets and cas.
func (u *user) swap(n *number) {
	for range swapAttempts {
		value, cas, ok, err := u.value(u.any(), "gets", n.key)
		if err != nil {
			u.failed("gets "+n.key, err)
			return
		}
		count, notNumber := strconv.ParseUint(value, 10, 64)
		line := ""
		if ok && notNumber == nil {
			next := strconv.FormatUint(count+1, 10)
			line, err = u.ask(u.any(), fmt.Sprintf("cas %s 0 0 %d %s\r\n%s\r\n", n.key, len(next), cas, next))
		}
		if !u.swapped(n, ok, line, err) {
			return
		}
	}
}

// swapped judges the answer to a swap and reports whether the swap must be tried again.
func (u *user) swapped(n *number, found bool, line string, err error) (again bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.missing:
	case !found || (err == nil && line == "NOT_FOUND"):
		u.lose(n)
	case err == nil && line == "EXISTS":
		return true
	case err != nil || line != "STORED":
		n.unsure++
		u.failed("cas "+n.key+": "+line, err)
	default:
		u.succeeded(&u.counts.Swaps)
		n.added++
	}
	return false
}

// compete adds one new key over all connections at once.
func (u *user) compete() {
	key := fmt.Sprintf("%scontest-%d", u.prefix, u.contest.Add(1))
	for i := range u.conns {
		if err := u.send(i, "add "+key+" 0 60 1\r\n1\r\n"); err != nil {
			u.close()
			u.failed("add "+key, err)
			return
		}
	}
	winners := 0
	for i := range u.conns {
		line, err := u.conns[i].r.next()
		switch {
		case errors.Is(err, io.EOF):
			u.drop(i) // this add was not done
		case err == nil && string(line) == "STORED":
			winners++
		case err != nil || string(line) != "NOT_STORED":
			u.failed("add "+key+": "+string(line), err)
			u.close()
			return
		}
	}
	u.succeeded(&u.counts.Contests)
	switch {
	case winners == 0:
		u.broken(&u.counts.WithoutWinner, "contest: none of %d adds of %s succeeded", len(u.conns), key)
	case winners > 1:
		u.broken(&u.counts.SeveralWinners, "contest: %d of %d adds of %s succeeded", winners, len(u.conns), key)
	}
}
