package route

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheZeroValuesAreTheDefaults(t *testing.T) {
	require.Equal(t, "default", ReadPolicy(0).String())
	require.Equal(t, "rendezvous", RingKind(0).String())
	require.Equal(t, "default", HashKind(0).String())
}

func TestTheLastValuesHaveTheLastNames(t *testing.T) {
	require.Equal(t, "least-busy", ReadLeastBusy.String())
	require.Equal(t, "libmemcached-weighted", RingLibmemcachedWeighted.String())
	require.Equal(t, "jenkins", HashJenkins.String())
}
