package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"mcmw/test/cluster/node"
)

func TestTheImagesHaveTheTagsOfTheChart(t *testing.T) {
	source, err := node.ModuleRoot()
	require.NoError(t, err)
	tags, err := chartTags(source)
	require.NoError(t, err)
	require.Len(t, tags, 3)
	for name, tag := range tags {
		require.Regexp(t, `^[0-9]+\.[0-9]+\.[0-9]+`, tag, name)
	}
}

func TestTheCommandsThatAreShownWorkFromAnyDirectory(t *testing.T) {
	source, err := node.ModuleRoot()
	require.NoError(t, err)
	found := 0
	for word := range strings.FieldsSeq(hints(source)) {
		if strings.Contains(word, "/") {
			require.True(t, strings.HasPrefix(word, "/"), word)
			_, err := os.Stat(word)
			require.NoError(t, err)
			found++
		}
	}
	require.Equal(t, 3, found)
}
