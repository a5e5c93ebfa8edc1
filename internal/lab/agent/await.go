package agent

import (
	"context"
	"fmt"
	"net"
	"time"

	"mcmw/internal/lab/process"
)

// awaitPause is the time between two tries.
const awaitPause = 5 * time.Millisecond

// Await returns when a server accepts connections ("tcp") or answers a request ("memcached") at address, or, when ctx ends, with the last reason why
// it doesn't.
func Await(ctx context.Context, protocol, address string) error {
	for {
		err := try(ctx, protocol, address)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s doesn't answer: %w", address, err)
		case <-time.After(awaitPause):
		}
	}
}

func try(ctx context.Context, protocol, address string) error {
	if protocol == "memcached" {
		return process.Answers(address)
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return conn.Close()
}
