package config

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestListsOfOptionsNameOptions(t *testing.T) {
	for _, name := range slices.Concat(live, local) {
		require.NotNil(t, Find(name), name)
	}
}
