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

// settingsTable returns the settings as a Markdown table.
func settingsTable() string {
	var rows strings.Builder
	rows.WriteString("| setting | default | accepted | meaning |\n|---|---|---|---|\n")
	for _, s := range experiment.Settings {
		fmt.Fprintf(&rows, "| `%s` | %s | %s | %s |\n", s.Name, s.Default,
			strings.TrimPrefix(s.Accepts, "a whole number from "), s.Help)
	}
	return rows.String()
}

func TestTheTableOfSettingsMatchesTheProgram(t *testing.T) {
	const begin, end = "<!-- settings -->\n", "<!-- end of settings -->\n"
	text := page(t, "experiments.md")
	before, rest, ok := strings.Cut(text, begin)
	require.True(t, ok)
	rows, after, ok := strings.Cut(rest, end)
	require.True(t, ok)
	if os.Getenv("MCMW_UPDATE") != "" {
		require.NoError(t, os.WriteFile("../../docs/experiments.md", []byte(before+begin+settingsTable()+end+after),
			0o644))
		return
	}
	require.Equal(t, settingsTable(), rows, "MCMW_UPDATE=1 go -C lab test ./experiment writes the table")
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
