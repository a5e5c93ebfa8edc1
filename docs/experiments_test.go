package docs

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"mcmw/internal/lab/experiment"
)

func TestTheTableOfSettingsIsThatOfTheProgram(t *testing.T) {
	const begin, end = "<!-- settings -->\n", "<!-- end of settings -->\n"
	text := read(t, "experiments.md")
	before, rest, ok := strings.Cut(text, begin)
	require.True(t, ok)
	rows, after, ok := strings.Cut(rest, end)
	require.True(t, ok)
	if os.Getenv("MCMW_UPDATE") != "" {
		require.NoError(t, os.WriteFile("experiments.md", []byte(before+begin+experiment.Table()+end+after), 0o644))
		return
	}
	require.Equal(t, experiment.Table(), rows, "MCMW_UPDATE=1 go test ./docs writes the table")
}

// The indented blocks that begin with a name are whole experiments.
func TestEveryExperimentInTheDocumentationIsRight(t *testing.T) {
	found := 0
	var block strings.Builder
	for line := range strings.Lines(read(t, "experiments.md") + "\n\nend\n") {
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
