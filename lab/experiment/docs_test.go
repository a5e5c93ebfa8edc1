package experiment_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"mcmw/lab/experiment"
)

// page returns the text of a page of the documentation.
func page(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/" + name)
	require.NoError(t, err)
	return string(text)
}

func TestTheTableOfSettingsMatchesTheProgram(t *testing.T) {
	const head = "| setting | default | accepted | meaning |\n|---|---|---|---|\n"
	_, rest, _ := strings.Cut(page(t, "experiments.md"), head)
	table, _, ok := strings.Cut(rest, "\n\n")
	require.True(t, ok)
	rows := strings.Split(table, "\n")
	require.Len(t, rows, len(experiment.Settings))
	for i, s := range experiment.Settings {
		meaning, ok := strings.CutPrefix(rows[i], fmt.Sprintf("| `%s` | %s | %s | ", s.Name, s.Default,
			strings.TrimPrefix(s.Accepts, "a whole number from ")))
		require.True(t, ok, "%s: expected the setting %s with its default and the accepted values", rows[i], s.Name)
		require.Greater(t, len(meaning), len(" |"), "%s: expected its meaning", rows[i])
	}
}

// An indented block that begins with name is a whole experiment; one that begins with factors or stop is a part of one.
func TestEveryExperimentInTheDocumentationIsValid(t *testing.T) {
	found := 0
	var block strings.Builder
	for line := range strings.Lines(page(t, "experiments.md") + "\n\nend\n") {
		if code, ok := strings.CutPrefix(line, "    "); ok {
			block.WriteString(code)
			continue
		}
		if strings.HasPrefix(block.String(), "name: ") {
			found++
			_, err := experiment.Parse("experiments.md", []byte(block.String()), false)
			require.NoError(t, err)
		}
		if strings.HasPrefix(block.String(), "factors: ") || strings.HasPrefix(block.String(), "stop:") {
			found++
			_, err := experiment.Parse("experiments.md", []byte("name: part\n"+block.String()), false)
			require.NoError(t, err)
		}
		block.Reset()
	}
	require.Equal(t, 3, found)
}
