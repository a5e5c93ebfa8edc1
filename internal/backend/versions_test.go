package backend_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"mcmw/internal/backend"
	"mcmw/internal/mctest"
)

func TestOnlyAReplyToTheProbeTellsWhetherAServerHasVersions(t *testing.T) {
	for _, tc := range []struct {
		answer  string
		has     bool
		problem string
	}{
		{answer: "HD c4611686018427387904\r\n", has: true},
		{answer: "HD c0\r\n"},
		{answer: "CLIENT_ERROR invalid flag\r\n"},
		{answer: "ERROR\r\n"},
		{
			answer:  "ERROR Too many open connections\r\n",
			problem: "versions: the server answered: ERROR Too many open connections",
		},
		{
			answer:  "SERVER_ERROR out of memory storing object\r\n",
			problem: "versions: the server answered: SERVER_ERROR out of memory storing object",
		},
	} {
		t.Run(tc.answer, func(t *testing.T) {
			server := mctest.StartScript(t, func(p *mctest.Peer) {
				if _, ok := p.Line(); ok {
					p.Send(tc.answer)
				}
				_, _ = p.Line()
				_, _ = p.Line()
			})
			has, err := newServer(server.Addr(), backend.Options{}).HasVersions(t.Context())
			assert.Equal(t, tc.has, has)
			if tc.problem == "" {
				assert.NoError(t, err)
			} else {
				assert.EqualError(t, err, tc.problem)
			}
		})
	}
}
