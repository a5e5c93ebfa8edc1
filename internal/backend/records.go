package backend

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"mcmw/internal/link"
	"mcmw/internal/marker"
	"mcmw/internal/stats"
)

const (
	// refreshEvery is the interval at which records that a server already holds are put again, so that they stay among
	// the last items that it evicts, and return after somebody else has flushed it.
	refreshEvery = 10 * time.Second
	// putAgain is the time after a failed put until the next attempt.
	putAgain = time.Second
)

// Records keeps on the servers what a middleware must know after its next start: the record of the placement, which
// middlewares are running, and which servers missed writes; see package marker. The servers of a pool share it.
type Records struct {
	// Static after construction.
	log   *slog.Logger
	owner string
	moved func(server string, newest *marker.Record) (moved func(key []byte) bool, unknown bool)

	// replicated: a write that one server misses may succeed elsewhere, because each key is on several servers or may
	// be in another pool.
	replicated atomic.Bool

	// lease is the time until which servers may be read, ns as stats.Now; see RespectMarks.
	lease  atomic.Int64
	agreed atomic.Bool // see Agreed
	// barredFor is the lease after whose end all servers have been barred; -1: none.
	barredFor atomic.Int64
	// applying is held while the servers are updated from the marks found. It is locked before mu and before a server's
	// mu.
	applying sync.Mutex
	lapsed   bool // guarded by applying: it was logged that the lease has lapsed

	// mu guards the fields below. Its holder neither waits nor locks a server's mu.
	mu       sync.Mutex
	fleet    *marker.Fleet
	respects bool          // the marks of other middlewares count while this one runs
	slack    time.Duration // how much later than others it takes over the marks of a middleware that is gone
	looks    marker.Looks  // what the servers that were reached before Begin held
	record   marker.Record
	running  string // the value of RunningKey; "": none is put
	begun    bool   // record is known, and is put on servers
	// beginning: Begin closes it; Keep reads it.
	beginning chan struct{}
	ended     bool // marks stay as they are, so that all servers are left with the same
	gutter    bool // see Gutter
	// round counts the changes to what the servers should hold.
	round      uint64
	stale      map[string]uint64 // marked server -> the round in which it was marked
	copies     map[*Server]*copyOf
	placements int // calls of Place
	// warned maps what is on too few servers to the round of the last warning about it.
	warned map[string]uint64
	// judged is when the answers of all servers were judged last. unapplied: applyMarks has not been called since.
	judged    int64
	unapplied bool
	// changed is closed and replaced when a put has ended or marks were applied.
	changed chan struct{}
}

// copyOf is what is known about the records on one server.
type copyOf struct {
	// held during a put, so that an earlier put cannot end after a later one; locked before Records.mu
	putting sync.Mutex
	has     uint64        // the latest round whose records it has
	tried   uint64        // the latest round of which a put was attempted
	again   bool          // put the records even if the server has them
	lost    int           // times the server has lost everything
	wake    chan struct{} // Records -> Keep of the server; capacity 1; never closed
	marks   heldMarks     // as it held them last; Keep's
	watched watched
	silent  silent
}

// NewRecords returns the records of a middleware that has not read those of any server yet. Nothing is put before
// Begin. For a server and the newest record found, moved returns which keys may be old there because they were placed
// elsewhere meanwhile (nil: none); unknown reports that this is not known for all keys.
func NewRecords(log *slog.Logger,
	moved func(server string, newest *marker.Record) (keys func(key []byte) bool, unknown bool),
) *Records {
	name := owner()
	r := &Records{
		log: log, moved: moved, owner: name, fleet: marker.NewFleet(name), slack: rand.N(2 * time.Second),
		looks: marker.Looks{}, stale: map[string]uint64{}, warned: map[string]uint64{}, copies: map[*Server]*copyOf{},
		changed: make(chan struct{}), beginning: make(chan struct{}),
	}
	r.lease.Store(forever)
	r.barredFor.Store(-1)
	return r
}

// owner returns a name for this middleware that no other has.
func owner() string {
	host, _ := os.Hostname()
	return fmt.Sprintf("%s %d %08x", host, os.Getpid(), rand.Uint32())
}

// Owner returns the name of this middleware, which no other has.
func (r *Records) Owner() string { return r.owner }

// Looks returns, by server, the records found on the servers that were reached before Begin.
func (r *Records) Looks() marker.Looks {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.looks)
}

// Moved reports whether the placement has changed since the first middleware was here, as far as the servers' records
// tell. Without records it returns false.
func (r *Records) Moved() bool {
	if r == nil {
		return false
	}
	newest := r.Looks().Newest()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.record.Version > 1 || newest != nil && newest.Version > 1
}

// found stores the records that a server held when it was first reached, before Begin.
func (r *Records) found(s *Server, look marker.Look) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.looks[s.Name] = look
}

// unfound removes what found has stored: the server was not reached again.
func (r *Records) unfound(s *Server) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.looks, s.Name)
}

// Runs records from the next Place on that a middleware with that name runs, which would leave replicas different if it
// were killed.
func (r *Records) Runs(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.running == "" {
		r.running = name + marker.Acknowledging
	}
}

// Begin starts to put records on the servers. Its parameters are those of Place. Servers that were marked stay marked.
// It is called once.
func (r *Records) Begin(record marker.Record, servers []*Server) {
	looks := r.Looks()
	newest := looks.Newest()
	r.mu.Lock()
	running := r.running
	r.mu.Unlock()
	if r.RespectsMarks() {
		r.beginFleet(looks, servers)
	} else {
		for _, s := range servers {
			if (newest != nil || running != "") && looks.Suspicion(s.Name) != "" {
				r.mark(s)
			}
		}
	}
	r.mu.Lock()
	if !r.respects {
		for _, look := range looks {
			if look.Marks != nil {
				for _, k := range *look.Marks {
					r.fleet.TakeOver(k)
				}
			}
		}
	}
	r.begun = true
	if running == "" {
		r.fleet.Silent(forever) // other middlewares, which may not acknowledge marks, do not show that they run either
	}
	if newest != nil {
		r.record = *newest
	}
	r.mu.Unlock()
	r.Place(record, servers)
	close(r.beginning)
}

// Gutter sets whether this pool has a gutter or is one. It is called before Place and Begin.
func (r *Records) Gutter(has bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gutter = has
}

// Place records that the placement in record, on servers, applies from now on. Place sets the record's version,
// addresses and gutter.
func (r *Records) Place(record marker.Record, servers []*Server) {
	record.Addresses = map[string]string{}
	for _, s := range servers {
		record.Addresses[s.Name] = s.Addr()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.placements++
	r.barredFor.Store(-1)
	record.Version, record.Gutter = r.record.Version, r.gutter
	if !record.SaysAs(&r.record) {
		record.Version++
	}
	r.record = record
	r.replicated.Store(record.Placement.Replicas > 1 || r.gutter)
	listed := map[*Server]bool{}
	var names []string
	for _, s := range servers {
		if !listed[s] {
			listed[s] = true
			names = append(names, s.Name)
		}
		if r.copies[s] == nil {
			r.copies[s] = &copyOf{wake: make(chan struct{}, 1)}
		}
	}
	for s := range r.copies {
		if !listed[s] {
			delete(r.copies, s)
			delete(r.stale, s.Name)
			r.fleet.Unmark(s.Name)
		}
	}
	r.fleet.Place(names)
	r.advance()
}

// advance begins a new round; mu is held.
func (r *Records) advance() {
	r.round++
	r.callAll()
}

// callAll wakes Keep of all servers; mu is held.
func (r *Records) callAll() {
	for _, c := range r.copies {
		wake(c.wake)
	}
}

// mark records that s may hold old values.
func (r *Records) mark(s *Server) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s.marking.Store(true)
	s.resign()
	if r.stale[s.Name] == 0 {
		r.advance()
		r.stale[s.Name] = r.round
		r.fleet.Mark(s.Name, stats.Now())
	}
}

// unmark records that s holds no old values any more.
func (r *Records) unmark(s *Server) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s.marking.Store(false)
	s.marked.Store(0)
	if r.stale[s.Name] != 0 && !r.ended {
		r.advance()
		r.fleet.Unmark(s.Name)
		delete(r.stale, s.Name)
	}
}

// lost records that s was flushed and therefore holds no records.
func (r *Records) lost(s *Server) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.forget(s) {
		r.fleet.Doubt()
		r.inForce()
		r.callAll()
	}
}

// forget makes Keep put all records on s, which has lost them, and reports whether s is one of the servers; mu is held.
func (r *Records) forget(s *Server) bool {
	c := r.copies[s]
	if c == nil {
		return false
	}
	c.has, c.tried = 0, 0
	c.lost++
	wake(c.wake)
	return true
}

// wake makes the reader of c go on.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// call wakes Keep of s.
func (r *Records) call(s *Server) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.copies[s]; c != nil {
		wake(c.wake)
	}
}

// Await waits until the mark of s, if s is marked, is in force: it is on enough servers for the next start to find it,
// or all middlewares respect it. It returns false if the mark does not come into force in time.
func (r *Records) Await(ctx context.Context, s *Server) bool {
	if r.RespectsMarks() {
		return r.awaitRespected(ctx, s)
	}
	return r.await(ctx, func() (since uint64, what string) { return r.stale[s.Name], "the mark of " + s.Name })
}

// AwaitPlaced waits until the current records are on enough servers, or cannot get there in time.
func (r *Records) AwaitPlaced(ctx context.Context) {
	r.mu.Lock()
	round := r.round
	r.mu.Unlock()
	r.await(ctx, func() (uint64, string) { return round, "the placement" })
}

// await waits until enough servers have the round that target returns; 0: there is nothing to wait for. target is
// called with mu held; what names the round in a warning. await returns false if too few servers can take the round, or
// none takes it in time.
func (r *Records) await(ctx context.Context, target func() (round uint64, what string)) bool {
	timeout := time.NewTimer(putAgain)
	defer timeout.Stop()
	for {
		r.mu.Lock()
		round, what := target()
		has, open := 0, 0
		for s, c := range r.copies {
			switch {
			case c.has >= round:
				has++
			case c.tried < round && s.takesRecords() && !s.Suspected():
				open++
			}
		}
		needed, changed := marker.Copies(len(r.copies)), r.changed
		r.mu.Unlock()
		if round == 0 || has >= needed {
			return true
		}
		if open > 0 {
			select {
			case <-changed:
				continue
			case <-timeout.C:
			case <-ctx.Done():
			}
		}
		r.mu.Lock()
		warned := r.warned[what] == round
		r.warned[what] = round
		r.mu.Unlock()
		if warned {
			return false
		}
		r.log.Warn("records for the next start are on too few servers, because too few can be reached or answer in "+
			"time; the next start may not find them",
			"what", what, "on", has, "needed", needed)
		return false
	}
}

// inForce sets which servers' marks are in force, because they are on enough servers; mu is held.
func (r *Records) inForce() {
	if r.respects {
		return // applyMarks sets it
	}
	for s := range r.copies {
		since := r.stale[s.Name]
		has := 0
		for _, c := range r.copies {
			if c.has >= since {
				has++
			}
		}
		until := int64(0)
		if since != 0 && has >= marker.Copies(len(r.copies)) {
			until = forever
		}
		s.setMarked(until)
	}
}

// End removes from the servers that the middleware reads and, if the replicas need not be compared, the entry that it
// is running. First it brings them up to date, so that the next start does not flush a server because of a mark that no
// longer applies.
func (r *Records) End(ctx context.Context, compared bool) {
	r.mu.Lock()
	copies := maps.Clone(r.copies)
	running, respects := "", r.respects
	if compared {
		running, r.running = r.running, ""
	}
	r.ended = true
	r.fleet.Leave()
	r.mu.Unlock()
	var ending sync.WaitGroup
	for s, c := range copies {
		if !s.takesRecords() {
			continue
		}
		ending.Go(func() {
			r.put(ctx, s, c, s.Talk)
			err := s.Talk(ctx, func(l *link.Link) error {
				if respects {
					if err := r.putMarks(l); err != nil {
						return err
					}
				}
				if running == "" {
					return nil
				}
				if value, _, err := l.Get(marker.RunningKey); err != nil || string(value) != running {
					return err // another one has replaced it
				}
				return l.Delete(marker.RunningKey)
			})
			if err != nil {
				r.log.Warn("the entry that this mcmw is running could not be removed from a server", "server", s.Name,
					"error", plain(err))
			}
		})
	}
	ending.Wait()
}

// takesRecords reports whether records can be put on the server now.
func (s *Server) takesRecords() bool { return !s.Down() && s.judged.Load() && !s.recordless.Load() }

// readRecords reads the records that a server holds.
func readRecords(l *link.Link) (look marker.Look, err error) {
	value, _, err := l.Get(marker.RecordKey)
	if value != nil {
		look.Record, err = marker.Decode(value)
	}
	if err == nil {
		value, _, err = l.Get(marker.RunningKey)
		look.Running = string(value)
	}
	if err == nil {
		value, _, err = l.Get(marker.MarksKey)
	}
	if err == nil && value != nil {
		look.Marks = new(marker.Marks)
		*look.Marks, err = marker.DecodeMarks(value)
	}
	return look, err
}
