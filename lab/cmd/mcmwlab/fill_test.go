package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAPageIsFilledWithTheOutputsOfItsCommands(t *testing.T) {
	dir := tailsRecord(t, "")
	page := filepath.Join(t.TempDir(), "page.md")
	write := func(text string) { require.NoError(t, os.WriteFile(page, []byte(text), 0o644)) }
	write("# Before\n\n<!-- $ mcmwlab capacity " + dir +
		" --format markdown -->\nstale words\n<!-- end -->\nbetween\n" +
		"<!-- $ mcmwlab compare " + dir + " --by server --metrics throughput -->\n<!-- end -->\n" +
		"<!-- $ mcmwlab report " + dir +
		" --figure throughput --out - > throughput.svg -->\n![stays](throughput.svg)\n<!-- end -->\nafter\n")
	_ = output(t, "fill", page)
	first, err := os.ReadFile(page)
	require.NoError(t, err)
	text := string(first)
	assert.NotContains(t, text, "stale words")
	assert.Contains(t, text, "\n| memcached | 60 | ")
	assert.Contains(t, text, "\nbetween\n")
	assert.Contains(t, text, "\n    throughput of client: requests answered\n")
	assert.Contains(t, text, "-->\n![stays](throughput.svg)\n<!-- end -->\nafter\n")
	figure, err := os.ReadFile(filepath.Join(filepath.Dir(page), "throughput.svg"))
	require.NoError(t, err)
	assert.Contains(t, string(figure), "<svg ")

	_ = output(t, "fill", page)
	again, err := os.ReadFile(page)
	require.NoError(t, err)
	assert.Equal(t, text, string(again), "filling it again changes nothing")

	for content, want := range map[string]string{
		"nothing":                              "the page has no block",
		"<!-- $ mcmwlab capacity x -->\n":      "line 1: expected the block",
		"<!-- $ mcmwlab run x -->\n" + fillEnd: `line 1: "run x": expected one of the commands capacity`,
		"<!-- $ mcmwlab report " + dir + " --figure cdf > ../x.svg -->\n" +
			fillEnd: "line 1: expected the path of one file, below the directory of the page, after >",
		"a\n<!-- $ mcmwlab capacity nowhere -->\n" +
			fillEnd: "line 2: mcmwlab capacity nowhere: ",
	} {
		write(content)
		_, _, err = lab(context.Background(), "fill", page)
		require.ErrorContains(t, err, want)
		left, err := os.ReadFile(page)
		require.NoError(t, err)
		assert.Equal(t, content, string(left), "a page with an error is not changed")
	}
}
