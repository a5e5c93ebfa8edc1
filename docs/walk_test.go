package docs

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestEachFunctionOnTheWalkOfAGetAndASetExistsInItsPackage(t *testing.T) {
	_, walk, found := strings.Cut(read(t, "architecture.md"), "function by function\n\n")
	require.True(t, found)
	walk, _, _ = strings.Cut(walk, "\n\n")
	of := "" // the package of the row
	names := 0
	for _, row := range strings.Split(walk, "\n")[2:] {
		cells := strings.SplitN(row, "|", 3)
		if name := strings.Trim(cells[1], " `"); name != "" {
			of = name
		}
		for _, m := range regexp.MustCompile("`(\\w+)`(?: \\(`(\\w+)`\\))?").FindAllStringSubmatch(cells[2], -1) {
			in := of
			if m[2] != "" {
				in = m[2]
			}
			files, err := filepath.Glob("../internal/" + in + "/*.go")
			require.NoError(t, err)
			text := ""
			for _, file := range files {
				text += read(t, file)
			}
			function := regexp.MustCompile(`(?m)^func (\([^)]*\) )?` + m[1] + `\(`)
			assert.True(t, function.MatchString(text), "package %s has no function %s", in, m[1])
			names++
		}
	}
	assert.Greater(t, names, 15)
}
