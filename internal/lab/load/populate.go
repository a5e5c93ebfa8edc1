package load

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"time"
)

const (
	// populateBatch is how many sets are outstanding while keys are stored: enough to hide the round trip, and their replies
	// fit any socket buffer, so that the server never waits for us to read.
	populateBatch = 64
	// populateBytes bounds the batch of large values.
	populateBytes = 1 << 20
)

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
	dialer := net.Dialer{Timeout: g.o.ConnectTimeout}
	nw, address := network(target)
	conn, err := dialer.DialContext(ctx, nw, address)
	if err != nil {
		return err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	replies := bufio.NewReader(conn)
	var out []byte
	for first := g.o.KeyMin; first <= g.o.KeyMax; {
		out = out[:0]
		next := first
		for ; next <= g.o.KeyMax && next-first < populateBatch && len(out) < populateBytes; next++ {
			out = g.enc.appendSet(out, next)
		}
		conn.SetDeadline(time.Now().Add(g.o.Timeout))
		if ctx.Err() != nil {
			return ctx.Err() // what stop would have done may just have been undone
		}
		if _, err := conn.Write(out); err != nil {
			return populateError(ctx, err)
		}
		for ; first < next; first++ {
			line, err := replies.ReadString('\n')
			if err != nil {
				return populateError(ctx, err)
			}
			if line != string(storedLine) {
				return fmt.Errorf("storing key %s: expected STORED, got %s", g.enc.appendKey(nil, first), excerpt([]byte(line)))
			}
			g.populated.Add(1)
		}
	}
	return nil
}

// populateError returns the end of ctx rather than the deadline by which it interrupted the connection.
func populateError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}
