package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/test/history"
)

func TestVerifyCountsTheAnswersOfACorrectService(t *testing.T) {
	server := mctest.StartMemcached(t)
	stdout := output(t, "verify", "--target", server.Addr(), "--rate", "2000", "--test-time", "2",
		"--json-out-file", "-")
	var v history.Verified
	require.NoError(t, json.Unmarshal([]byte(stdout), &v))
	assert.Positive(t, v.Reads.Succeeded)
	assert.Positive(t, v.Writes.Succeeded)
	assert.Positive(t, v.Audited)

	stdout = output(t, "verify", "--target", server.Addr(), "--test-time", "0.1")
	assert.Contains(t, stdout, "0 wrong, 0 stale")
}

func TestVerifyEndsWhenItsInputEnds(t *testing.T) {
	server := mctest.StartMemcached(t)
	cmd := newVerifyCommand()
	input, end := io.Pipe()
	var out bytes.Buffer
	cmd.SetIn(input)
	cmd.SetOut(&out)
	cmd.SetArgs([]string{"--target", server.Addr(), "--until-eof", "--rate", "1000"})
	end.Close()
	require.NoError(t, cmd.ExecuteContext(context.Background()))
	assert.Contains(t, out.String(), "reads")
}

func TestVerifyFailsForAServiceThatResetsConnections(t *testing.T) {
	server := mctest.StartScript(t, func(p *mctest.Peer) {
		p.Line()
		p.Reset()
	})
	_, _, err := lab(context.Background(), "verify", "--target", server.Addr(), "--test-time", "2", "-c", "1")
	require.ErrorContains(t, err, "the service broke a promise")
}
