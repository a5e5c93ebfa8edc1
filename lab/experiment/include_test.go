package experiment

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// readIn reads exp.yaml, which includes ../common/base.yaml, with these texts.
func readIn(t *testing.T, base, own string) (text []byte, file string) {
	dir := t.TempDir()
	for name, text := range map[string]string{"common/base.yaml": base, "own/exp.yaml": own} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	file = filepath.Join(dir, "own/exp.yaml")
	text, err := Read(file, os.ReadFile)
	require.NoError(t, err)
	return text, file
}

func TestAFileReplacesWhatItIncludes(t *testing.T) {
	const base = "# shared\nconstants: {keys: 500, value_size: 8}\nrepetitions: 7\nquick: {repetitions: 2, run: " +
		"{duration: 1s}}\n"
	const own = "name: own\ninclude: ../common/base.yaml\nconstants: {value_size: 16}\nstop: half_width(throughput) " +
		"<= 5%\nquick: {run: {warm_up: 3s}}\n"
	text, file := readIn(t, base, own)
	e, err := Parse(file, text, false)
	require.NoError(t, err)
	require.Equal(t, "500 16", e.Points[0].Values[Keys]+" "+e.Points[0].Values[ValueSize])
	require.NotNil(t, e.Stop, "replaces the included repetitions")
	require.Equal(t, text, e.Text)
	require.Contains(t, string(text), "# shared\n", "the text is complete")
	e, err = Parse(file, text, true, "constants.keys=600")
	require.NoError(t, err)
	require.Equal(t, "600", e.Points[0].Values[Keys])
	require.Equal(t, 2, e.Repetitions)
	require.Equal(t, "3s 1s", e.Phases.WarmUp.String()+" "+e.Phases.Duration.String())
}

func TestProblemsOfAnIncludedFileAreReportedWithItsNameAndLine(t *testing.T) {
	text, file := readIn(t, "seed: 1\n\nconstants: {keys: many}\n",
		"name: own\ninclude: ../common/base.yaml\norder: none\n")
	_, err := Parse(file, text, false)
	base := filepath.Join(filepath.Dir(file), "../common/base.yaml")
	require.ErrorContains(t, err, base+`:3: constants.keys: "many"`)
	require.ErrorContains(t, err, file+`:3: order: "none"`)
	text, file = readIn(t, "include: x.yaml\n", "name: own\ninclude: ../common/base.yaml\n")
	_, err = Parse(file, text, false)
	require.ErrorContains(t, err,
		"common/base.yaml:1: an included file includes another; accepted: one that includes none")
	text, file = readIn(t, "", "name: own\n---\nseed: 1\n")
	_, err = Parse(file, text, false)
	require.ErrorContains(t, err, "exp.yaml:3: a second YAML document; accepted: one")
	text, file = readIn(t, "", "name: own\ninclude: ../common/base.yaml\n")
	_, err = Parse(file, text, false)
	require.NoError(t, err, "an empty file can be included")
	_, err = Parse("exp.yaml", []byte("name: a\ninclude: b.yaml\n"), false)
	require.ErrorContains(t, err, "exp.yaml:2: include: not read")
	missing := filepath.Join(t.TempDir(), "exp.yaml")
	require.NoError(t, os.WriteFile(missing, []byte("name: a\ninclude: b.yaml\n"), 0o644))
	_, err = Read(missing, os.ReadFile)
	require.ErrorContains(t, err, missing+":2: include: open ")
}

func TestASettingKeepsTheCommentsAndTheStyleOfTheFile(t *testing.T) {
	text := []byte("testbed: {kind: vm}\nrepetitions: 3\n---\n" +
		"include: base.yaml\nname: a\ntestbed:\n  hosts: # one\n    load: {count: 1}\n")
	e, err := Parse("a.yaml", text, false, "repetitions=5")
	require.NoError(t, err)
	require.Equal(t, 5, e.Repetitions)
	require.Equal(t, 1, e.Machines["load"].Count)
	_, err = Parse("a.yaml", text, false, "repetitions=0")
	require.EqualError(t, err, `a.yaml: repetitions: "0"; expected a whole number from 1 to 10000`)
	_, err = Parse("a.yaml", text, false, "repetitions=[\n0]", "seed=x")
	require.ErrorContains(t, err, "a.yaml: seed: ")
}
