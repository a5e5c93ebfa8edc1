package foreign

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// The outputs of the 2018 report's 2^3 write-only experiment have no licence and are not in the repository. If MCMW_2KA
// is a folder with them (2ka) and with results computed from them by another program (expected.json), the test compares
// all results.
func TestTheSummaryOfTheReportsOutputsMatchesTheReference(t *testing.T) {
	dir := os.Getenv("MCMW_2KA")
	if dir == "" {
		t.Skip("the outputs have no licence and are not in the repository; set MCMW_2KA to a folder with 2ka and " +
			"expected.json")
	}
	configurations, err := ReadTree(t.Context(), os.DirFS(dir))
	require.NoError(t, err)
	text, err := json.Marshal(Summarize(configurations))
	require.NoError(t, err)
	var got, want map[string]any
	require.NoError(t, json.Unmarshal(text, &got))
	text, err = os.ReadFile(dir + "/expected.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &want))
	for _, configuration := range want["configurations"].([]any) {
		// It was computed from other files.
		delete(configuration.(map[string]any), "repo_comparison")
	}
	compared := 0
	for _, problem := range differences("configurations", want["configurations"], got["configurations"], &compared) {
		t.Error(problem)
	}
	require.Greater(t, compared, 1000)
	t.Logf("%d values compared", compared)
}

// differences returns the places where got differs from want. Numbers may differ by 1e-9.
func differences(at string, want, got any, compared *int) (problems []string) {
	switch want := want.(type) {
	case map[string]any:
		object, ok := got.(map[string]any)
		if !ok {
			return []string{fmt.Sprintf("%s: expected an object, got %v", at, got)}
		}
		for name, value := range want {
			problems = append(problems, differences(at+"."+name, value, object[name], compared)...)
		}
		for name := range object {
			if _, ok := want[name]; !ok {
				problems = append(problems, fmt.Sprintf("%s.%s: not expected", at, name))
			}
		}
	case []any:
		list, ok := got.([]any)
		if !ok || len(list) != len(want) {
			return []string{fmt.Sprintf("%s: expected %d values, got %v", at, len(want), got)}
		}
		for i, value := range want {
			problems = append(problems, differences(fmt.Sprintf("%s[%d]", at, i), value, list[i], compared)...)
		}
	case float64:
		*compared++
		v, ok := got.(float64)
		if !ok || math.Abs(v-want) > 1e-9*max(1, math.Abs(want)) {
			return []string{fmt.Sprintf("%s: expected %v, got %v", at, want, got)}
		}
	default:
		if want != got {
			return []string{fmt.Sprintf("%s: expected %v, got %v", at, want, got)}
		}
	}
	return problems
}
