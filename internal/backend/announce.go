package backend

import (
	"context"
	"fmt"
	"time"
)

// Announce puts value under key on the server, for the time lasts, and then returns what is there under another key; nil: nothing.
func (s *Server) Announce(ctx context.Context, key string, value []byte, lasts time.Duration, other string) ([]byte, error) {
	p, err := s.Link(ctx)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	if err := p.Expect(expiringLine(key, string(value), lasts), "HD"); err != nil {
		return nil, err
	}
	return p.Fetch(other)
}

// Announced returns what was announced under key on the server; nil: nothing.
func (s *Server) Announced(ctx context.Context, key string) ([]byte, error) {
	p, err := s.Link(ctx)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	return p.Fetch(key)
}

// Withdraw deletes what was announced under key.
func (s *Server) Withdraw(ctx context.Context, key string) error {
	p, err := s.Link(ctx)
	if err != nil {
		return err
	}
	defer p.Close()
	return p.Expect(deleteLine(key), "HD", "NF")
}

// expiringLine is setLine of an item that lasts no longer than given.
func expiringLine(key, value string, lasts time.Duration) string {
	return fmt.Sprintf("ms %s %d T%d b\r\n%s\r\n", encoded(key), len(value), (lasts+time.Second-1)/time.Second, value)
}
