package load

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	// populateConnections is how many connections store the keys of a target: a proxy may serve the requests of one
	// connection one after the other.
	populateConnections = 16
	// populateBatch is how many sets are outstanding on a connection: enough to hide the round trip, and few enough
	// that their replies fit any socket buffer, so the server never has to wait.
	populateBatch = 16
	// populateBytes limits a batch of large values, bytes.
	populateBytes = 64 << 10
	// populateSeed is the number of a sequence of draws that no connection uses.
	populateSeed = math.MaxUint64
)

// Populate stores every key of a load once on every target. It makes no load.
func Populate(ctx context.Context, o Options) error {
	g, err := New(o)
	if err != nil {
		return err
	}
	return g.populate(ctx)
}

// populate stores every key once on every target.
func (g *Generator) populate(ctx context.Context) error {
	for _, target := range g.o.Targets {
		if err := g.populateTarget(ctx, target); err != nil {
			return fmt.Errorf("populating: target %s: %w", target, err)
		}
	}
	return nil
}

func (g *Generator) populateTarget(ctx context.Context, target string) error {
	// The values have their own sequence of draws, independent of those of the connections.
	p := population{g: g, next: g.o.KeyMin, rng: rand.NewPCG(g.o.Seed, populateSeed)}
	var connections sync.WaitGroup
	for range min(populateConnections, (g.o.KeyMax-g.o.KeyMin)/populateBatch+1) {
		connections.Go(func() {
			if key, err := p.store(ctx, target); err != nil {
				p.fail(key, cmp.Or(ctx.Err(), err)) // the end of ctx interrupts a connection by a timeout
			}
		})
	}
	connections.Wait()
	return p.err
}

// population is the storing of every key on one target.
type population struct {
	g *Generator

	mu     sync.Mutex // guards what follows
	next   uint64     // the first key of the next batch
	rng    *rand.PCG
	err    error // of the least key that failed: no batch begins after it
	failed uint64
}

// fail notes that a key could not be stored.
func (p *population) fail(key uint64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil || key < p.failed {
		p.err, p.failed = err, key
	}
}

// batch appends the next sets to out, and returns the keys that they store: from first, before end.
func (p *population) batch(out []byte) (_ []byte, first, end uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	first = p.next
	for p.err == nil && p.next <= p.g.o.KeyMax && p.next-first < populateBatch && len(out) < populateBytes {
		out = p.g.work.appendSet(out, p.next, p.rng)
		p.next++
	}
	return out, first, p.next
}

// store stores batches on a connection until there are none left. With an error it returns the key that it is about.
func (p *population) store(ctx context.Context, target string) (uint64, error) {
	o := &p.g.o
	conn, err := connect(ctx, o, target)
	if err != nil {
		return o.KeyMin, err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	replies := replyReader{bufio.NewReader(conn), scanner{protocol: o.Protocol}}
	var out []byte
	for {
		var key, end uint64
		if out, key, end = p.batch(out[:0]); key == end {
			return 0, nil
		}
		conn.SetDeadline(time.Now().Add(o.Timeout))
		if ctx.Err() != nil {
			return key, ctx.Err() // SetDeadline may have replaced the deadline of AfterFunc
		}
		if _, err := conn.Write(out); err != nil {
			return key, err
		}
		for ; key < end; key++ {
			if err := replies.stored(); err != nil {
				return key, fmt.Errorf("storing key %s: %w", p.g.work.enc.appendKey(nil, key), cmp.Or(ctx.Err(), err))
			}
			p.g.populated.Add(1)
		}
	}
}

// replyReader reads the replies to SETs one by one.
type replyReader struct {
	*bufio.Reader
	scan scanner
}

// stored returns an error unless the next reply says that a value was stored.
func (r *replyReader) stored() error {
	for done := false; !done; {
		if _, err := r.Peek(1); err != nil {
			return err
		}
		var taken int
		var err error
		buf, _ := r.Peek(r.Buffered())
		if taken, done, err = r.scan.next(buf, set); err != nil {
			return err
		}
		_, _ = r.Discard(taken)
	}
	if failed := r.scan.reply.failed; failed != nil {
		return fmt.Errorf("the target answered %s", excerpt(failed))
	}
	return nil
}
