package memtier

import (
	"bytes"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

// seed adds files of testdata; of long ones only the beginning.
func seed(f *testing.F, names ...string) {
	for _, name := range names {
		text, err := io.ReadAll(open(f, name))
		require.NoError(f, err)
		f.Add(text[:min(len(text), 6000)])
	}
}

// checkOutput checks what holds for every accepted output.
func checkOutput(t *testing.T, out *Output, err error) {
	if err != nil {
		return
	}
	require.NotEmpty(t, out.Overall().Rows)
	for _, result := range out.Results {
		for _, distribution := range result.Distributions {
			for i, q := range distribution {
				require.GreaterOrEqual(t, q.Share, 0.0)
				require.True(t, i == 0 || q.Seconds >= distribution[i-1].Seconds)
			}
		}
	}
}

func FuzzParseText(f *testing.F) {
	seed(f, "get.txt", "mixed-3runs.txt")
	f.Fuzz(func(t *testing.T, text []byte) {
		out, err := ParseText(bytes.NewReader(text))
		checkOutput(t, out, err)
	})
}

func FuzzParseJSON(f *testing.F) {
	seed(f, "get.json")
	f.Add([]byte(`{"configuration":{"ratio":"1:9"},"run information":{"Threads":2},"ALL STATS":{"Runtime":{},"Sets":{"Ops/sec":nan,"Time-Serie":{"0":{"Count":1}}},"SET":[{"<=msec":1,"percent":100}]}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		out, err := ParseJSON(bytes.NewReader(text))
		checkOutput(t, out, err)
	})
}
