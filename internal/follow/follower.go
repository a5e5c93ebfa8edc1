package follow

import (
	"context"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"mcmw/internal/backend"
	"mcmw/internal/link"
	"mcmw/internal/protocol"
	"mcmw/internal/request"
	"mcmw/internal/route"
	"mcmw/internal/stats"
)

// What a follower is delivered: copies of what the pool holds; a delete of each key that is written; or only deletes of
// keys that clients delete, for a pool that its own clients fill.
const (
	All     = "all"
	Deletes = "deletes"
	Purges  = "purges"
)

// Options say what follows.
type Options struct {
	What string // All, Deletes or Purges
	// Flush: servers in doubt are flushed.
	Flush bool
	// Memory bounds the debts of a server, bytes.
	Memory int
	// Hold is how long the tombstone stays that a delete is preceded by, at least; 0: there is none. Not for All.
	Hold time.Duration
}

const (
	// mostDebts is the maximum number of debts of one delivery, and mostBytes the size of values after which it gets
	// no more.
	mostDebts = 1000
	mostBytes = 4 << 20
	// lookLength is how many values are read before their size is looked at.
	lookLength = 32
	// ahead is how much is sent before the first reply is read, bytes.
	ahead = 256 << 10
	// pauseMin and pauseMax bound the pause after a failed delivery. Each is twice as long as the one before, and
	// varies by a fifth.
	pauseMin = 100 * time.Millisecond
	pauseMax = 5 * time.Second
	// listAgain is the pause after a failed attempt to list a server's keys.
	listAgain = 10 * time.Second
)

// Follower is a pool that follows another one. Any goroutine may call its methods.
type Follower struct {
	// Read returns what the followed pool holds under keys; with value false, only the versions. Static.
	read    func(keys []string, value bool) []Present
	log     *slog.Logger // static
	options atomic.Pointer[Options]

	// placing guards the fields below. It is held while debts are added, so that none is added to a server that leaves.
	placing sync.RWMutex
	router  *route.Router
	targets []*target // in the router's order
	ctx     context.Context
	working sync.WaitGroup
	gone    Counts // of servers that have left
}

// target is a server of the following pool.
type target struct {
	server *backend.Server
	addr   string
	ledger *Ledger
	stop   context.CancelFunc // nil until it is started
}

// New returns a follower without servers, which Place sets.
func New(o Options, read func(keys []string, value bool) []Present, log *slog.Logger) *Follower {
	f := &Follower{read: read, log: log}
	f.options.Store(&o)
	return f
}

// Change changes the options.
func (f *Follower) Change(o Options) {
	f.options.Store(&o)
	f.placing.RLock()
	defer f.placing.RUnlock()
	for _, t := range f.targets {
		t.ledger.Limit(o.Memory)
		t.ledger.awake()
	}
}

// What returns what is delivered.
func (f *Follower) What() string { return f.options.Load().What }

func (f *Follower) copies() bool { return f.What() == All }

// Place sets the servers: those of router, with the options o. A server that gets keys is owed what those are owed that
// held these keys, and one that loses keys the deletes of those that were written.
func (f *Follower) Place(router *route.Router, o backend.Options) {
	f.placing.Lock()
	defer f.placing.Unlock()
	previous, before := f.targets, f.router
	f.targets, f.router = nil, router
	for _, s := range router.Servers() {
		same := func(t *target) bool { return t.server.Name == s.Name && t.addr == s.Addr }
		if at := slices.IndexFunc(previous, same); at >= 0 {
			previous[at].server.Tune(o)
			f.targets = append(f.targets, previous[at])
			continue
		}
		f.targets = append(f.targets, &target{backend.NewServer(s, o), s.Addr, NewLedger(f.options.Load().Memory), nil})
	}
	now := time.Now()
	gains := func(t *target) bool {
		return !slices.Contains(previous, t) || router.Gains(t.server.Name, before)
	}
	holder := func(target int) (holds func(key []byte) bool) {
		return func(key []byte) bool { return slices.Contains(router.Replicas(key, nil), target) }
	}
	for _, t := range previous {
		for to := range f.targets {
			if t != f.targets[to] && gains(f.targets[to]) {
				t.ledger.Hand(f.targets[to].ledger, now, holder(to))
			}
		}
		if at := slices.Index(f.targets, t); at >= 0 {
			t.ledger.Release(now, holder(at))
			continue
		}
		if t.stop != nil {
			t.stop()
		}
		state := t.ledger.State(now)
		f.gone.Delivered, f.gone.Deletes = f.gone.Delivered+state.Delivered, f.gone.Deletes+state.Deletes
		f.gone.Dropped += state.Dropped
	}
	f.start()
}

// Wrote implements request.Recipient: the write is owed, unless it changed nothing or is not delivered.
func (f *Follower) Wrote(r *protocol.Request, key []byte, result stats.Result, _ request.Order) {
	removes := r.Has(protocol.Deletes) || r.Verb == 'd'
	touches := !removes && (!r.Has(protocol.Makes) || r.Fetches()) // at most the time that the item lives
	switch what := f.What(); {
	case r.Answer != "" && !r.HasEffect(), result == stats.ResultClientError, result == stats.ResultMiss,
		result == stats.ResultNotStored && !removes, Delivered(&r.Op):
	case r.NumKeys == 0:
		f.flush(flushAt(r.Expiry, time.Now()))
	case what == Deletes && touches, what == Purges && !removes:
	default:
		// otherwise what the pool holds now is not the effect of the write, and the key is deleted
		copied := what == All && result != stats.ResultServerError && r.Answer == "" && (r.Fetches() || !r.Unclear())
		f.placing.RLock()
		defer f.placing.RUnlock()
		f.owe(key, copied, time.Now())
	}
}

// oweListed adds key, which t has listed: if it is not placed there any more, it is deleted.
func (f *Follower) oweListed(t *target, key []byte) {
	f.placing.RLock()
	defer f.placing.RUnlock()
	placed := slices.Contains(f.router.Replicas(key, nil), slices.Index(f.targets, t))
	t.ledger.Owe(key, placed, time.Now())
}

func (f *Follower) owe(key []byte, copied bool, now time.Time) {
	for _, i := range f.router.Replicas(key, make([]int, 0, 4)) {
		f.targets[i].ledger.Owe(key, copied, now)
	}
}

// flushAt returns when a flush_all with exptime takes effect that was answered at now.
func flushAt(exptime int32, now time.Time) time.Time {
	if exptime > protocol.LongestExpiry {
		return time.Unix(int64(exptime), 0)
	}
	return now.Add(time.Duration(exptime) * time.Second)
}

// flush adds a flush of the pool, which takes effect at due. It is not delivered where only deletes are.
func (f *Follower) flush(due time.Time) {
	if !f.copies() {
		return
	}
	now := time.Now()
	f.each(func(l *Ledger) { l.Flush(due, now) })
}

// Doubt says that any write since a time may be missing.
func (f *Follower) Doubt(since time.Time) {
	now := time.Now()
	f.each(func(l *Ledger) { l.Doubt(since, now) })
}

func (f *Follower) each(do func(l *Ledger)) {
	f.placing.RLock()
	defer f.placing.RUnlock()
	for _, t := range f.targets {
		do(t.ledger)
	}
}

// State returns the state of all servers together.
func (f *Follower) State() (s State) {
	now := time.Now()
	f.each(func(l *Ledger) { s = s.add(l.State(now)) })
	f.placing.RLock()
	defer f.placing.RUnlock()
	return s.add(State{Counts: f.gone})
}

// Run delivers until ctx is done.
func (f *Follower) Run(ctx context.Context) {
	f.placing.Lock()
	f.ctx = ctx
	f.start()
	f.placing.Unlock()
	<-ctx.Done()
	f.placing.Lock()
	f.ctx = nil
	f.placing.Unlock()
	f.working.Wait()
}

// start starts the deliverers of new servers, if Run was called; placing is held.
func (f *Follower) start() {
	for _, t := range f.targets {
		if f.ctx == nil || t.stop != nil {
			continue
		}
		ctx, stop := context.WithCancel(f.ctx)
		t.stop = stop
		f.working.Go(func() { f.serve(ctx, t) })
		f.working.Go(func() { f.clean(ctx, t) })
	}
}

// serve delivers to t until ctx is done.
func (f *Follower) serve(ctx context.Context, t *target) {
	var c *conn
	defer func() { c.abort() }()
	pause := pauseMin
	for ctx.Err() == nil {
		debts, flush, wait := t.ledger.Take(mostDebts, f.options.Load().Flush, time.Now())
		if len(debts) == 0 && !flush.Any() {
			sleep(ctx, t.ledger.wake, wait)
			continue
		}
		err := error(nil)
		if c == nil {
			c, err = f.connect(ctx, t)
		}
		switch {
		case err != nil:
		case flush.Any():
			if err = c.Flush(); err == nil {
				t.ledger.Flushed(flush)
				f.log.Warn("a server of a following pool was flushed", "server", t.server.Name)
			}
		default:
			err = f.deliver(c, t.ledger, debts)
		}
		if err == nil {
			pause = pauseMin
			continue
		}
		c.abort()
		c = nil
		f.log.Debug("a delivery to a following pool failed", "server", t.server.Name, "error", err)
		sleep(ctx, nil, time.Duration(float64(pause)*(0.8+0.4*rand.Float64())))
		pause = min(2*pause, pauseMax)
	}
}

// sleep waits until ctx is done, wake has a token, or d is over; 0: never.
func sleep(ctx context.Context, wake <-chan struct{}, d time.Duration) {
	var over <-chan time.Time
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-ctx.Done():
	case <-wake:
	case <-over:
	}
}

// conn is a connection to a server of the following pool.
type conn struct {
	*link.Link
	versions bool
	cancel   context.CancelFunc
}

func (f *Follower) connect(ctx context.Context, t *target) (*conn, error) {
	versions := false
	if f.copies() {
		var err error
		if versions, err = t.server.HasVersions(ctx); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	l, err := t.server.Link(ctx)
	if err != nil {
		cancel()
		return nil, err
	}
	l.SendAhead(ahead)
	return &conn{l, versions, cancel}, nil
}

// abort resets the connection, so that the kernel does not send what the server has not received.
func (c *conn) abort() {
	if c != nil {
		c.cancel()
	}
}

// deliver delivers debts, and settles them. After an error the connection must not be used again.
func (f *Follower) deliver(c *conn, l *Ledger, debts []Debt) error {
	present := f.look(debts)
	debts = debts[:len(present)]
	outcomes := make([]Outcome, 0, len(debts))
	requests := func(yield func(protocol.Op) bool) {
		for i, d := range debts {
			if !yield(Delivery(d, &present[i], c.versions)) {
				return
			}
		}
	}
	err := f.bury(c, debts)
	if err == nil {
		err = c.Ask(requests, io.Discard, func(r link.Reply) error {
			outcomes = append(outcomes, Answered(r.Code))
			return nil
		})
	}
	if err != nil {
		now := time.Now()
		for _, d := range debts {
			l.Settle(d, Lost, now)
		}
		return err
	}
	f.confirm(debts, present, outcomes)
	now := time.Now()
	for i, o := range outcomes {
		l.Settle(debts[i], o, now)
	}
	return nil
}

// bury leaves the tombstones of debts, if there are to be any. Each delete follows when all have been acknowledged.
func (f *Follower) bury(c *conn, debts []Debt) error {
	hold := f.options.Load().Hold
	if hold == 0 {
		return nil
	}
	tombstones := func(yield func(protocol.Op) bool) {
		for _, d := range debts {
			if !yield(Bury(d, hold)) {
				return
			}
		}
	}
	return c.Ask(tombstones, io.Discard, func(r link.Reply) error {
		if Answered(r.Code) != Paid {
			return link.Unexpected(r.Line)
		}
		return nil
	})
}

// look returns what the followed pool holds under the keys of the first debts, if they are copied: of all, or of so
// many that the values are not too large together.
func (f *Follower) look(debts []Debt) (present []Present) {
	size := 0
	for part := range slices.Chunk(debts, lookLength) {
		if size > mostBytes {
			break
		}
		found := make([]Present, len(part))
		f.readInto(found, part, true, func(i int) bool { return part[i].Copy })
		for i := range found {
			size += len(found[i].Data)
		}
		present = append(present, found...)
	}
	return present
}

// confirm looks at the followed pool again, and corrects the outcomes of copies.
func (f *Follower) confirm(debts []Debt, present []Present, outcomes []Outcome) {
	again := make([]Present, len(outcomes))
	copied := func(i int) bool { return debts[i].Copy && outcomes[i] == Paid && !present[i].Failed }
	f.readInto(again, debts, false, copied)
	for i := range outcomes {
		switch {
		case copied(i):
			outcomes[i] = present[i].Confirm(&again[i])
		case present[i].Failed:
			outcomes[i] = Refused
		}
	}
}

// readInto reads what the followed pool holds under the keys of those debts that are wanted.
func (f *Follower) readInto(found []Present, debts []Debt, value bool, wanted func(i int) bool) {
	var keys []string
	var at []int
	for i := range found {
		if wanted(i) {
			keys, at = append(keys, debts[i].Key), append(at, i)
		}
	}
	if len(keys) == 0 {
		return
	}
	for i, p := range f.read(keys, value) {
		found[at[i]] = p
	}
}

// clean adds all keys that t lists to its ledger while it is in doubt, until ctx is done.
func (f *Follower) clean(ctx context.Context, t *target) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		number := t.ledger.Doubted()
		if number == 0 || !f.copies() || f.options.Load().Flush {
			continue
		}
		err := t.server.List(ctx, false, func(item protocol.Dumped) error {
			for t.ledger.Full() {
				if sleep(ctx, nil, 10*time.Millisecond); ctx.Err() != nil {
					return ctx.Err()
				}
			}
			f.oweListed(t, item.Key)
			return nil
		})
		if err == nil {
			t.ledger.Listed(number)
			continue
		}
		f.log.Debug("the keys of a following pool can't be listed", "server", t.server.Name, "error", err)
		sleep(ctx, nil, listAgain)
	}
}
