package route

import (
	"encoding/json"
	"flag"
	"testing"

	"github.com/stretchr/testify/require"
)

// value is what a flag and a YAML value need.
type value interface {
	flag.Value
	Type() string
	MarshalText() ([]byte, error)
	UnmarshalText([]byte) error
}

func TestEveryNameIsReadBackAsTheValueItCameFrom(t *testing.T) {
	for _, tc := range []struct {
		v     value
		names []string
	}{
		{new(ReadPolicy), ReadPolicyNames()},
		{new(RingKind), RingKindNames()},
		{new(HashKind), HashKindNames()},
	} {
		require.NotEmpty(t, tc.names)
		for _, name := range tc.names {
			require.NoError(t, tc.v.Set(name))
			require.Equal(t, name, tc.v.String())
			b, err := json.Marshal(tc.v)
			require.NoError(t, err)
			require.Equal(t, `"`+name+`"`, string(b))
			require.NoError(t, json.Unmarshal(b, tc.v))
			require.Equal(t, name, tc.v.String())
		}
		last := tc.v.String()
		err := tc.v.Set("nonesuch")
		require.ErrorContains(t, err, `"nonesuch"`)
		for _, name := range tc.names {
			require.ErrorContains(t, err, name)
		}
		require.Equal(t, last, tc.v.String(), "a refused text must not change the value")
	}
}

func TestTheZeroValuesAreTheDefaults(t *testing.T) {
	require.Equal(t, "default", ReadPolicy(0).String())
	require.Equal(t, "rendezvous", RingKind(0).String())
	require.Equal(t, "default", HashKind(0).String())
}

func TestAnUnknownValuePrintsItsNumber(t *testing.T) {
	require.Equal(t, "unknown(200)", HashKind(200).String())
}
