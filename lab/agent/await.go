package agent

import (
	"context"
	"fmt"
	"net"
	"time"

	"mcmw/lab/process"
)

// awaitPause is the time between two attempts.
const awaitPause = 5 * time.Millisecond

// Await waits until a server at address accepts connections (protocol "tcp") or answers a request ("memcached"), at
// most for process.ReadyTimeout. If the time or ctx ends first, the error is that of the last attempt.
func Await(ctx context.Context, protocol, address string) error {
	ctx, cancel := context.WithTimeout(ctx, process.ReadyTimeout)
	defer cancel()
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
