package middleware_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
)

// answersUntil starts a server that answers mcmw's own requests. A connection whose line begins with unanswered ends
// when last returns.
func answersUntil(t *testing.T, unanswered string, last func(p *mctest.Peer)) *mctest.Script {
	return mctest.StartScript(t, func(p *mctest.Peer) {
		for line, ok := p.Line(); ok; line, ok = p.Line() {
			if strings.HasPrefix(line, unanswered) {
				last(p)
				return
			}
			p.Known(line)
		}
	})
}

func TestAStartThatWaitsForAServerCanBeStopped(t *testing.T) {
	for name, unanswered := range map[string]string{
		"does not answer":                      "version",
		"does not say whether it has versions": "ms ",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked := make(chan struct{}, 1)
			server := answersUntil(t, unanswered, func(p *mctest.Peer) {
				asked <- struct{}{}
				p.Stall()
			})
			o := middleware.Options{Servers: mwtest.Named(server.Addr(), mctest.StartNewMemcached(t).Addr())}
			o.ConnectTimeout = time.Hour
			m := mwtest.Begin(t, o)
			<-asked
			require.NoError(t, m.Stop())
		})
	}
}

func TestAStartOfWhichNoServerStoresRecordsInTimeSaysSo(t *testing.T) {
	warned := make(chan struct{})
	defer close(warned)
	silent := answersUntil(t, "ms ", func(*mctest.Peer) { <-warned })
	log := &mctest.Output{}
	mwtest.Begin(t, middleware.Options{
		Servers: mwtest.Named(silent.Addr()), Writers: middleware.WritersOne,
		Log: slog.New(slog.NewTextHandler(log, nil)),
	})
	select {
	case <-log.Written("on too few servers, because too few can be reached or answer in time"):
	case <-time.After(mctest.Patience):
		require.FailNow(t, "no warning", log)
	}
}
