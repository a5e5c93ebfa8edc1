package userinput

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAMappingIsReadAndNothingElse(t *testing.T) {
	root, err := Mapping([]byte("a: 1\nb: [2]\n"), "name: value")
	require.NoError(t, err)
	require.Len(t, root.Content, 4)
	assert.Equal(t, 2, root.Content[2].Line)
	for _, empty := range []string{"", "# nothing\n", "---\n", "~\n"} {
		root, err := Mapping([]byte(empty), "name: value")
		require.NoError(t, err, empty)
		assert.Nil(t, root, empty)
	}
	for text, want := range map[string]string{
		"a: 1\n---\nb: 2\n": "line 2: a second YAML document; accepted: one",
		"\n- 1\n":           `line 2: not a mapping; accepted: lines of the form "name: value"`,
		"a: [1\nb: 2\n":     "line 1: not YAML: did not find expected ',' or ']'",
		"a: 1\n---\nb: [\n": "line 3: not YAML: did not find expected node content",
		"a: \x01":           "not YAML: control characters are not allowed",
	} {
		_, err := Mapping([]byte(text), "name: value")
		assert.EqualError(t, err, want, text)
	}
}
