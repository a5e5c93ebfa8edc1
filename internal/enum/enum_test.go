package enum

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNamesAndValuesMapToEachOther(t *testing.T) {
	type color uint8
	names := New[color]("color", "red", "green")
	for i, name := range names.All() {
		v, err := names.Parse(name)
		require.NoError(t, err)
		require.Equal(t, color(i), v)
		require.Equal(t, name, names.Of(v))
	}
	_, err := names.Parse("blue")
	require.EqualError(t, err, `unknown color "blue"; accepted: red, green`)
	require.Equal(t, "unknown(2)", names.Of(2))
	require.NoError(t, names.Check(1))
	require.EqualError(t, names.Check(2), "unknown color 2; accepted: red, green")
	names.All()[0] = "changed"
	require.Equal(t, "red", names.Of(0))
}
