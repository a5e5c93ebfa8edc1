package backend

import (
	"context"

	"mcmw/internal/link"
)

// Link connects to the server, apart from the workers' connections.
func (s *Server) Link(ctx context.Context) (*link.Link, error) {
	sock, err := s.Dial(ctx)
	if err != nil {
		return nil, err
	}
	return link.New(ctx, sock, s.options.Load().ConnectTimeout), nil
}

// Talk calls say with a link to the server.
func (s *Server) Talk(ctx context.Context, say func(l *link.Link) error) error {
	l, err := s.Link(ctx)
	if err != nil {
		return err
	}
	defer l.Close()
	return say(l)
}
