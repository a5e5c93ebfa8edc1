package backend

import (
	"context"
	"fmt"
	"time"

	"mcmw/internal/marker"
)

// Announce stores value under key on the server for the given time, and then returns the value of another key; nil: there is none.
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

// Announced returns the value that was announced under key on the server; nil: there is none.
func (s *Server) Announced(ctx context.Context, key string) ([]byte, error) {
	p, err := s.Link(ctx)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	return p.Fetch(key)
}

// Withdraw deletes the value that was announced under key.
func (s *Server) Withdraw(ctx context.Context, key string) error {
	p, err := s.Link(ctx)
	if err != nil {
		return err
	}
	defer p.Close()
	return p.Expect(deleteLine(key), "HD", "NF")
}

// expiringLine is setLine for an item that expires after lasts, rounded up to whole seconds.
func expiringLine(key, value string, lasts time.Duration) string {
	return fmt.Sprintf("ms %s %d T%d b\r\n%s\r\n", marker.Encoded(key), len(value), (lasts+time.Second-1)/time.Second, value)
}
