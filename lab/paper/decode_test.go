package paper_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"mcmw/lab/paper"
)

// written returns findings with one whose conditions are given.
func written(holds string) string {
	if holds[0] != '[' {
		holds = "'" + holds + "'"
	}
	return "findings:\n  - section: a\n    text: words\n    holds: " + holds + "\n"
}

func TestProblemsOfAFindingAreReported(t *testing.T) {
	const holds = "holds: 'knee(throughput[a], clients) > 1'"
	for text, want := range map[string]string{
		"":               "c.yaml: EOF",
		"findings: []\n": "no findings; expected the key findings with a list of them",
		"findings: [\n":  "yaml: ",
		"claims: []\n":   "field claims not found",
		"travel: soon\nfindings: [{section: a, text: b, " + holds +
			"}]\n": `travel "soon": expected a duration such as 0.5ms`,
		"findings: [{section: a, " + holds +
			"}]\n": `finding 1, "": expected section, text and holds`,
		"findings: [{section: a, text: b}]\n":           `finding 1, "b": expected section, text and holds`,
		"findings: [{section: a, text: b, rule: {}}]\n": "field rule not found",
		"findings: [{section: a, text: b, construction: c, cause: 'bottleneck([a]) is workers', " + holds +
			"}]\n": `finding 1, "b": expected construction or cause`,
		written("throughput[a] > 1"):                  `line 4: "throughput[a] > 1", character 1: expected bottleneck(...) or knee(...)`,
		written("plateau(throughput, clients) > 1"):   `"plateau(throughput, clients) > 1": expected the runs of an experiment in brackets after the metric`,
		written("plateau(throughput[a], wheels) > 1"): `character 24: expected a setting of experiments, not "wheels"`,
		written("share(throughput[a], wheels) > 1"): "expected a setting of experiments, or " +
			"interactions",
		written("ratio(throughput[a, wheels=3], [a]) > 1"):              `character 21: expected a setting of experiments, not "wheels"`,
		written("model_error(mean[a], M/G/1, 1..2) < 1"):                "character 22: expected one of M/M/1, ",
		written("['law_error(throughput) < 1', 'law_error(speed)< 1']"): `line 4: "law_error(speed)< 1", character 11: expected a metric`,
	} {
		file := filepath.Join(t.TempDir(), "c.yaml")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
		_, err := paper.Load("kuechler", file)
		require.ErrorContains(t, err, want, text)
		require.ErrorContains(t, err, "c.yaml: ", text)
	}
	_, err := paper.Load("kuechler", "../experiments/reports/kuechler.yaml")
	require.NoError(t, err, "a copy of the report's own file")
}
