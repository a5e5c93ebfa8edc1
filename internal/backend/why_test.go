package backend

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTheWarningThatNoServerIsReadSaysWhatStalled(t *testing.T) {
	const ms = int64(time.Millisecond)
	now := int64(time.Hour)
	good := watched{took: ms, due: now + 70*ms}
	for want, looks := range map[string]map[string]watched{
		"":                             {"a": good, "b": good},
		"b has not answered for 310ms": {"a": good, "b": {asked: now - 310*ms}},
		"a: connection refused":        {"a": {err: errors.New("connection refused"), due: now}, "b": good},
		"b has lost its marks":         {"a": good, "b": {took: ms, due: now, blank: true}},
		"a took 400ms to answer":       {"a": {took: 400 * ms, due: now + 80*ms}, "b": good},
		"this mcmw was stopped or had no processor for 2.1s": {
			"a": {took: ms, due: now - 2100*ms},
			"b": {asked: now, late: 2050 * ms},
		},
	} {
		whys := whyUnknown(looks, now)
		if want == "" {
			require.Empty(t, whys)
			continue
		}
		require.Equal(t, []string{want}, whys)
	}
}
