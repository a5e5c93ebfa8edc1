package load

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

const (
	// populateBatch is how many sets are outstanding while keys are stored: enough to hide the round trip, and few
	// enough that their replies fit any socket buffer, so the server never has to wait.
	populateBatch = 64
	// populateBytes limits a batch of large values, bytes.
	populateBytes = 1 << 20
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
	conn, err := connect(ctx, &g.o, target)
	if err != nil {
		return err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	replies := replyReader{bufio.NewReader(conn), scanner{protocol: g.o.Protocol}}
	// The values have their own sequence of draws, independent of those of the connections.
	rng := rand.NewPCG(g.o.Seed, populateSeed)
	var out []byte
	for first := g.o.KeyMin; first <= g.o.KeyMax; {
		out = out[:0]
		next := first
		for ; next <= g.o.KeyMax && next-first < populateBatch && len(out) < populateBytes; next++ {
			out = g.work.appendSet(out, next, rng)
		}
		conn.SetDeadline(time.Now().Add(g.o.Timeout))
		if ctx.Err() != nil {
			return ctx.Err() // SetDeadline may have replaced the deadline of AfterFunc
		}
		// The end of ctx interrupts the connection by a timeout.
		if _, err := conn.Write(out); err != nil {
			return cmp.Or(ctx.Err(), err)
		}
		for ; first < next; first++ {
			if err := replies.stored(); err != nil {
				return fmt.Errorf("storing key %s: %w", g.work.enc.appendKey(nil, first), cmp.Or(ctx.Err(), err))
			}
			g.populated.Add(1)
		}
	}
	return nil
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
