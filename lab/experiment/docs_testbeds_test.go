package experiment_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"mcmw/lab/experiment"
)

// Indented blocks that begin with testbed are testbeds; one is an inventory.
func TestEveryTestbedInTheDocumentationIsValid(t *testing.T) {
	testbeds, inventories := 0, 0
	var block strings.Builder
	check := func(text string) {
		var err error
		switch {
		case strings.HasPrefix(text, "testbed:"):
			testbeds++
			_, err = experiment.Parse("testbeds.md", []byte("name: part\n"+text), false)
		case strings.HasPrefix(text, "# hosts.yaml"):
			inventories++
			_, err = experiment.ParseInventory("testbeds.md", []byte(text), "/home/me")
		}
		require.NoError(t, err)
	}
	for line := range strings.Lines(page(t, "testbeds.md") + "\nend\n") {
		if code, ok := strings.CutPrefix(line, "    "); ok {
			block.WriteString(code)
			continue
		}
		check(block.String())
		block.Reset()
	}
	require.Positive(t, testbeds)
	require.Equal(t, 1, inventories)
}
