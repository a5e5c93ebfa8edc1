package admin

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// silent is a server that takes requests and answers none.
type silent struct{}

func (silent) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func TestACommandDoesNotWaitForeverForAMiddlewareThatDoesNotAnswer(t *testing.T) {
	transport := http.DefaultTransport
	http.DefaultTransport = silent{}
	defer func() { http.DefaultTransport = transport }()
	for name, ask := range map[string]func(ctx context.Context) error{
		"advise, migrate status": func(ctx context.Context) error { _, err := Fetch(ctx, "a:1", NoPoints); return err },
		"config check --against": func(ctx context.Context) error { _, err := Check(ctx, "a:1", nil); return err },
	} {
		synctest.Test(t, func(t *testing.T) {
			require.ErrorContains(t, ask(t.Context()), "http://a:1: context deadline exceeded", name)
		})
	}
}
