package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/config"
)

const root = "../../.."

func TestTheGeneratedFilesOfTheChartAreUpToDate(t *testing.T) {
	files, err := generate(root)
	require.NoError(t, err)
	for path, want := range files {
		have, err := os.ReadFile(filepath.Join(root, path))
		require.NoError(t, err)
		assert.Equal(t, string(want), string(have),
			"%s is not what it is made from: go generate ./internal/tools/chart", path)
	}
	copies, err := filepath.Glob(filepath.Join(root, chartDir, "files", "*", "*"))
	require.NoError(t, err)
	for _, path := range copies {
		relative, err := filepath.Rel(root, path)
		require.NoError(t, err)
		assert.Contains(t, files, relative, "a copy of something that is gone")
	}
}

func TestEveryGeneratedFileIsWritten(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{
		"dashboards", "rules", chartDir + "/values.yaml", chartDir + "/templates/_common.tpl", loadDir + "/values.yaml",
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, path)), 0o777))
		source, err := filepath.Abs(filepath.Join(root, path))
		require.NoError(t, err)
		require.NoError(t, os.Symlink(source, filepath.Join(dir, path)))
	}
	require.NoError(t, run(dir))
	files, err := generate(dir)
	require.NoError(t, err)
	for path, want := range files {
		have, err := os.ReadFile(filepath.Join(dir, path))
		require.NoError(t, err)
		assert.Equal(t, string(want), string(have))
	}
}

func TestAValueWithoutACommentIsNamed(t *testing.T) {
	_, err := parseValues([]byte("# About the file\n\n# Documented\na: 1\nb: 2\nc:\n  d: 3\n"))
	require.EqualError(t, err,
		"line 5: b has no comment; expected one that says what the value is for\nline 7: c.d has no comment; "+
			"expected one that says what the value is for")
}

func TestARefinementOfAMissingValueIsNamed(t *testing.T) {
	values, err := parseValues([]byte("# Documented\na: 1\n"))
	require.NoError(t, err)
	used := map[string]bool{}
	_, err = schemaOf("mcmw", values, refine(), used)
	require.NoError(t, err)
	require.ErrorContains(t, unused(refine(), used), "which is not in values.yaml")
}

func TestTheSchemaHasEveryOptionThatTheChartDoesNotDerive(t *testing.T) {
	properties := options()["properties"].(map[string]any)
	poolOnly := 0
	for _, o := range config.Options {
		if o.PoolOnly() {
			poolOnly++
			require.NotContains(t, properties, o.Name)
		}
	}
	require.Len(t, properties, len(config.Options)-len(managed)-poolOnly)
	for _, name := range managed {
		require.NotNil(t, config.Find(name), name)
		require.NotContains(t, properties, name)
	}
	text, err := json.Marshal(properties["sharded"])
	require.NoError(t, err)
	require.Contains(t, string(text), `"enum":[true,false,"true","false","yes","no","on","off"]`)
}
