package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAPageIsFilledWithTheOutputsOfItsCommands(t *testing.T) {
	dir := t.TempDir()
	page, lab := filepath.Join(dir, "page.md"), filepath.Join(dir, "lab")
	script := "#!/bin/sh\n[ \"$2\" != nowhere ] && printf 'one\\n\\n%s\\n' \"$*\"\n"
	require.NoError(t, os.WriteFile(lab, []byte(script), 0o755))
	fill := func(content string) (string, error) {
		require.NoError(t, os.WriteFile(page, []byte(content), 0o644))
		cmd := exec.Command("../.ci/fill", page)
		cmd.Env = append(os.Environ(), "MCMWLAB="+lab)
		message, err := cmd.CombinedOutput()
		filled, readErr := os.ReadFile(page)
		require.NoError(t, readErr)
		if err != nil {
			assert.Equal(t, content, string(filled), "a page with an error is not changed")
			return string(message), err
		}
		return string(filled), nil
	}
	const want = "# Before\n\n<!-- $ mcmwlab capacity r --format markdown -->\n\none\n\n" +
		"capacity r --format markdown\n\n<!-- end -->\nbetween\n" +
		"<!-- $ mcmwlab compare r -->\n\n    one\n\n    compare r\n\n<!-- end -->\n" +
		"<!-- $ mcmwlab report r > a.svg -->\n![stays](a.svg)\n<!-- end -->\nafter\n"
	text, err := fill("# Before\n\n<!-- $ mcmwlab capacity r --format markdown -->\nstale\n<!-- end -->\nbetween\n" +
		"<!-- $ mcmwlab compare r -->\n<!-- end -->\n" +
		"<!-- $ mcmwlab report r > a.svg -->\n![stays](a.svg)\n<!-- end -->\nafter\n")
	require.NoError(t, err, text)
	assert.Equal(t, want, text)
	figure, err := os.ReadFile(filepath.Join(dir, "a.svg"))
	require.NoError(t, err)
	assert.Equal(t, "one\n\nreport r\n", string(figure))
	text, err = fill(want)
	require.NoError(t, err)
	assert.Equal(t, want, text, "filling it again changes nothing")

	for content, problem := range map[string]string{
		"nothing":                           "expected blocks",
		"<!-- $ mcmwlab capacity x -->\n":   "expected blocks",
		"<!-- $ mcmwlab run x -->\n":        "run x: expected capacity",
		"<!-- $ mcmwlab show nowhere -->\n": "",
	} {
		message, err := fill(content)
		require.Error(t, err, content)
		assert.Contains(t, message, problem)
	}
}
