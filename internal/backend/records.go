package backend

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"mcmw/internal/marker"
)

const (
	// refreshEvery is how often records that a server holds already are put again, so that they stay among the last that it
	// evicts, and return after a flush by somebody else.
	refreshEvery = 10 * time.Second
	// putAgain is how long after a failed put it is tried again.
	putAgain = time.Second
	// maxRecord bounds what is read of a record, bytes.
	maxRecord = 1 << 20
)

// Records keeps on the servers what a middleware must know after its next start: the record of the placement, which
// middlewares are running, and which servers missed writes; see package marker. Shared by the servers of a middleware.
type Records struct {
	// Static after construction.
	log   *slog.Logger
	moved func(server string, newest *marker.Record) (moved func(key []byte) bool, unknown bool)

	// replicated: each key is on several servers, so a write that one of them misses succeeds on the others.
	replicated atomic.Bool

	// mu guards the fields below. Its holder neither waits nor locks a server's mu.
	mu      sync.Mutex
	servers []string     // whose markers matter; replaced, never changed
	looks   marker.Looks // what the servers reached before Begin held
	record  marker.Record
	running string // the value of RunningKey; "": it is removed
	begun   bool   // record is known, and is put on servers
	// round counts the changes to what the servers should hold.
	round  uint64
	stale  map[string]uint64 // marked server -> the round in which it was marked
	clean  map[string]uint64 // server whose marker is removed -> the round of the removal
	copies map[*Server]*copyOf
	// warned: the last warning that a record is on too few servers, and its round.
	warned map[string]uint64
	// changed is closed and replaced when a put has ended.
	changed chan struct{}
}

// copyOf is what is known about the records on one server.
type copyOf struct {
	has   uint64        // the latest round whose records it has
	tried uint64        // the latest round that was put, or tried to be
	again bool          // put the records even if the server has them
	lost  int           // times the server has lost everything
	wake  chan struct{} // Records -> Keep of the server; capacity 1; never closed
}

// NewRecords returns the records of a middleware that has not looked at a server yet. Nothing is put before Begin. For a
// server and the newest record found, moved returns which keys may be old there because they were placed elsewhere meanwhile
// (nil: none), or that this is not known for all keys.
func NewRecords(log *slog.Logger, moved func(server string, newest *marker.Record) (keys func(key []byte) bool, unknown bool)) *Records {
	return &Records{
		log: log, moved: moved, looks: marker.Looks{}, stale: map[string]uint64{}, clean: map[string]uint64{}, warned: map[string]uint64{}, copies: map[*Server]*copyOf{},
		changed: make(chan struct{}),
	}
}

// Expect sets the servers whose markers matter, before any server is reached.
func (r *Records) Expect(servers []*Server) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.servers = nil
	for _, s := range servers {
		r.servers = append(r.servers, s.Name)
	}
}

// Looks returns what was found on the servers that were reached.
func (r *Records) Looks() marker.Looks {
	r.mu.Lock()
	defer r.mu.Unlock()
	looks := marker.Looks{}
	for name, look := range r.looks {
		looks[name] = look
	}
	return looks
}

// found notes what a server held when it was first reached, before Begin.
func (r *Records) found(s *Server, look marker.Look) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.looks[s.Name] = look
}

// Begin starts putting records: running is the middleware's name, "" if it is not to be put; the other parameters are those
// of Place. What was marked stays marked.
func (r *Records) Begin(running string, placement marker.Placement, previous []marker.Placement, more bool, servers []*Server) {
	looks := r.Looks()
	newest := looks.Newest()
	for _, s := range servers {
		if (newest != nil || running != "") && looks.Suspicion(s.Name) != "" {
			r.mark(s)
		}
	}
	r.mu.Lock()
	r.begun, r.running = true, running
	if newest != nil {
		r.record = *newest
	}
	r.mu.Unlock()
	r.Place(placement, previous, more, false, servers)
}

// Place says that placement, with servers, is in force from now on; the others are Record's fields.
func (r *Records) Place(placement marker.Placement, previous []marker.Placement, more, changing bool, servers []*Server) {
	addresses := map[string]string{}
	for _, s := range servers {
		addresses[s.Name] = s.Addr()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.record
	alike := func(a, b marker.Placement) bool { return a.Equal(&b) }
	if !alike(last.Placement, placement) || last.Changing != changing || last.More != more || !slices.EqualFunc(last.Previous, previous, alike) {
		r.record = marker.Record{Version: last.Version + 1, Placement: placement, Previous: previous, More: more, Changing: changing}
	}
	r.record.Addresses = addresses
	r.servers = nil
	r.replicated.Store(placement.Replicas > 1)
	listed := map[*Server]bool{}
	for _, s := range servers {
		listed[s] = true
		r.servers = append(r.servers, s.Name)
		if r.copies[s] == nil {
			r.copies[s] = &copyOf{wake: make(chan struct{}, 1)}
		}
	}
	for s := range r.copies {
		if !listed[s] {
			delete(r.copies, s)
			delete(r.stale, s.Name)
		}
	}
	r.advance()
}

// advance begins a round; mu is held.
func (r *Records) advance() {
	r.round++
	for _, c := range r.copies {
		c.call()
	}
}

func (c *copyOf) call() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// mark records that s may hold old values.
func (r *Records) mark(s *Server) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stale[s.Name] == 0 {
		r.advance()
		r.stale[s.Name] = r.round
		delete(r.clean, s.Name)
	}
}

// unmark records that s holds no old values any more.
func (r *Records) unmark(s *Server) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s.marked.Store(false)
	if r.stale[s.Name] != 0 {
		r.advance()
		r.clean[s.Name] = r.round
		delete(r.stale, s.Name)
	}
}

// lost records that s was flushed and holds no records any more.
func (r *Records) lost(s *Server) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.copies[s]; c != nil {
		c.has, c.tried = 0, 0
		c.lost++
		r.inForce()
		c.call()
	}
}

// call wakes Keep of s if s lacks something it should hold.
func (r *Records) call(s *Server) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.copies[s]; c != nil {
		c.call()
	}
}

// Await waits until the marker of s, if it is marked, is on enough servers, or cannot be.
func (r *Records) Await(ctx context.Context, s *Server) {
	r.await(ctx, func() (since uint64, what string) { return r.stale[s.Name], "the marker of " + s.Name })
}

// AwaitPlaced waits until the current records are on enough servers, or cannot be.
func (r *Records) AwaitPlaced(ctx context.Context) {
	r.mu.Lock()
	round := r.round
	r.mu.Unlock()
	r.await(ctx, func() (uint64, string) { return round, "the placement" })
}

// names returns the servers whose markers matter.
func (r *Records) names() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.servers
}

// await waits until enough servers have the round that of returns, 0 for none; of is called with mu held.
func (r *Records) await(ctx context.Context, of func() (uint64, string)) {
	timeout := time.NewTimer(putAgain)
	defer timeout.Stop()
	for {
		r.mu.Lock()
		round, what := of()
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
			return
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
		told := r.warned[what] == round
		r.warned[what] = round
		r.mu.Unlock()
		if told {
			return
		}
		r.log.Warn("too few servers can be reached for what has to be known after a restart; the next start may not know it",
			"what", what, "on", has, "needed", needed)
		return
	}
}

// Keep puts on s what it should hold, until ctx is done. One goroutine per server.
func (r *Records) Keep(ctx context.Context, s *Server) {
	r.mu.Lock()
	c := r.copies[s]
	r.mu.Unlock()
	if c == nil {
		return
	}
	refresh := time.NewTimer(refreshAfter())
	defer refresh.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.wake:
		case <-refresh.C:
			r.mu.Lock()
			c.again = true
			r.mu.Unlock()
		}
		pause := refreshAfter()
		if s.takesRecords() && !r.put(ctx, s, c) {
			pause = putAgain
		}
		refresh.Reset(pause)
	}
}

func refreshAfter() time.Duration {
	return time.Duration(float64(refreshEvery) * (0.8 + 0.4*rand.Float64()))
}

// put brings s up to date; false means that this failed.
func (r *Records) put(ctx context.Context, s *Server, c *copyOf) bool {
	for {
		r.mu.Lock()
		round, lost := r.round, c.lost
		if !r.begun || (c.has == round && !c.again) {
			r.mu.Unlock()
			return true
		}
		c.again = false
		lines, err := r.lines(s, c.has)
		r.mu.Unlock()
		if err == nil {
			err = s.putLines(ctx, lines)
		}
		r.mu.Lock()
		if c.lost == lost {
			c.tried = round
			if err == nil {
				c.has = round
			}
		}
		r.inForce()
		close(r.changed)
		r.changed = make(chan struct{})
		r.mu.Unlock()
		if err != nil {
			if ctx.Err() == nil {
				r.log.Warn("what has to be known after a restart could not be put on a server", "server", s.Name, "error", plain(err))
			}
			return false
		}
	}
}

// inForce tells the servers whose markers are on enough servers; mu is held.
func (r *Records) inForce() {
	for s := range r.copies {
		since := r.stale[s.Name]
		has := 0
		for _, c := range r.copies {
			if c.has >= since {
				has++
			}
		}
		s.marked.Store(since != 0 && has >= marker.Copies(len(r.copies)))
	}
}

// lines returns the requests that bring a server up to date that has round from: the markers first, and last the record,
// which says that the markers are complete. mu is held.
func (r *Records) lines(s *Server, from uint64) (lines []string, err error) {
	now := time.Now().UTC().Format(time.RFC3339)
	for name := range r.stale {
		lines = append(lines, setLine(marker.StaleKey(name), now))
	}
	for name, since := range r.clean {
		if since > from {
			lines = append(lines, deleteLine(marker.StaleKey(name)))
		}
	}
	if r.running != "" {
		lines = append(lines, setLine(marker.RunningKey, r.running))
	}
	record := r.record
	record.Server = s.Name
	b, err := record.Encode()
	return append(lines, setLine(marker.RecordKey, string(b))), err
}

// End removes from the servers the entry that the middleware is running.
func (r *Records) End(ctx context.Context) {
	r.mu.Lock()
	var servers []*Server
	if r.running != "" {
		for s := range r.copies {
			servers = append(servers, s)
		}
	}
	running := r.running
	r.running = ""
	r.mu.Unlock()
	var ending sync.WaitGroup
	for _, s := range servers {
		if !s.takesRecords() {
			continue
		}
		ending.Go(func() {
			if err := s.endRunning(ctx, running); err != nil {
				r.log.Warn("a server could not be told of the end", "server", s.Name, "error", plain(err))
			}
		})
	}
	ending.Wait()
}

// endRunning removes the entry of a middleware that ends, unless another one has replaced it.
func (s *Server) endRunning(ctx context.Context, name string) error {
	p, err := s.Link(ctx)
	if err != nil {
		return err
	}
	defer p.Close()
	if err := p.Send("mg " + encoded(marker.RunningKey) + " b v\r\n"); err != nil {
		return err
	}
	if value, err := p.ReadValue(); err != nil || string(value) != name {
		return err
	}
	return p.Expect(deleteLine(marker.RunningKey), "HD", "NF")
}

func encoded(key string) string { return base64.StdEncoding.EncodeToString([]byte(key)) }

func setLine(key, value string) string {
	return fmt.Sprintf("ms %s %d b\r\n%s\r\n", encoded(key), len(value), value)
}

func deleteLine(key string) string { return "md " + encoded(key) + " b\r\n" }

// takesRecords reports whether records can be put on the server now.
func (s *Server) takesRecords() bool { return !s.Down() && s.judged.Load() && !s.recordless.Load() }

// putLines sends requests whose replies are one line each.
func (s *Server) putLines(ctx context.Context, lines []string) error {
	p, err := s.Link(ctx)
	if err != nil {
		return err
	}
	defer p.Close()
	return p.Pipeline(slices.Values(lines), func() error { return p.want("HD", "NF") })
}

// look returns the records that the server holds; servers are those whose markers matter.
func (p *Link) look(servers []string) (look marker.Look, err error) {
	keys := []string{marker.RecordKey, marker.RunningKey}
	for _, name := range servers {
		keys = append(keys, marker.StaleKey(name))
	}
	request := func(yield func(string) bool) {
		for _, key := range keys {
			if !yield("mg " + encoded(key) + " b v\r\n") {
				return
			}
		}
	}
	n := -1
	err = p.Pipeline(request, func() error {
		n++
		value, err := p.ReadValue()
		switch {
		case err != nil || value == nil:
			return err
		case n == 0:
			look.Record, err = marker.Decode(value)
			return err
		case n == 1:
			look.Running = string(value)
		default:
			look.Stale = append(look.Stale, servers[n-2])
		}
		return nil
	})
	return look, err
}

// ReadValue reads the reply to an mg with v; nil: a miss.
func (p *Link) ReadValue() ([]byte, error) {
	line, err := p.Line()
	if err != nil || line == "EN" {
		return nil, err
	}
	size, ok := strings.CutPrefix(line, "VA ")
	size, _, _ = strings.Cut(size, " ")
	n, err := strconv.Atoi(size)
	if !ok || err != nil || n < 0 || n > maxRecord {
		return nil, Unexpected(line)
	}
	value := bytes.NewBuffer([]byte{})
	err = p.Value(value, int64(n))
	return value.Bytes(), err
}
