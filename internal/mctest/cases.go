package mctest

import (
	"cmp"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Case is a text of a file of cases, with what is expected of it.
type Case struct{ Text, Want string }

// Cases reads a file of cases, each of which is a line "TEXT => WANT"; \n in TEXT begins a new line. Further lines
// belong to WANT. A case without WANT has that of the next. Lines between two lines "===" begin the text of each case
// that follows.
func Cases(t testing.TB, path string) (cases []Case) {
	t.Helper()
	file, err := os.ReadFile(path)
	require.NoError(t, err)
	beginning, begins := "", false
	for line := range strings.Lines(string(file)) {
		text, want, isCase := strings.Cut(strings.TrimSuffix(line, "\n"), " =>")
		switch {
		case line == "===\n":
			if begins = !begins; begins {
				beginning = ""
			}
		case begins:
			beginning += line
		case isCase:
			cases = append(cases, Case{beginning + strings.ReplaceAll(text, `\n`, "\n") + "\n", strings.TrimPrefix(want, " ")})
		default:
			require.NotEmpty(t, cases, "%s: %q", path, line)
			if c := &cases[len(cases)-1]; c.Want != "" && !strings.HasSuffix(c.Want, "\n") {
				c.Want += "\n"
			}
			cases[len(cases)-1].Want += line
		}
	}
	for i := len(cases) - 2; i >= 0; i-- {
		cases[i].Want = cmp.Or(cases[i].Want, cases[i+1].Want)
	}
	return cases
}
