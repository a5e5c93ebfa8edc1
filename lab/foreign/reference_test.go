package foreign

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"mcmw/lab/memtier"
)

// kindSummary is a summary of the clients by another program. Times are in milliseconds.
type kindSummary struct {
	Throughput  float64
	Response    float64            `json:"response_ms"`
	Percentiles map[string]float64 `json:"percentiles_merged_ms"`
}

// The outputs of the 2018 report's 2^3 write-only experiment have no licence and are not in the repository. If MCMW_2KA
// is a folder with them (2ka) and with results computed from them by another program (expected.json), the test compares
// the results of the clients.
func TestTheReportsOutputsAreReadAsByTheReference(t *testing.T) {
	dir := os.Getenv("MCMW_2KA")
	if dir == "" {
		t.Skip("the outputs have no licence and are not in the repository; set MCMW_2KA to a folder with 2ka and " +
			"expected.json")
	}
	text, err := os.ReadFile(filepath.Join(dir, "expected.json"))
	require.NoError(t, err)
	var expected struct {
		Configurations []struct {
			Dir     string
			Clients int
			Reps    []struct {
				Rep    int
				Client struct{ Total, Set *kindSummary }
			}
		}
	}
	require.NoError(t, json.Unmarshal(text, &expected))
	require.NotEmpty(t, expected.Configurations)
	for _, c := range expected.Configurations {
		for _, r := range c.Reps {
			files, err := filepath.Glob(filepath.Join(dir, c.Dir, fmt.Sprintf("cliout*rep%d.out", r.Rep)))
			require.NoError(t, err)
			compare(t, files, c.Clients, r.Client.Total, r.Client.Set)
		}
	}
}

// compare compares the outputs of a run with the summaries of all requests and of SETs.
func compare(t *testing.T, files []string, clients int, total, set *kindSummary) {
	var read []*memtier.Output
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		_, format, err := ParseFile(text, "auto", nil)
		require.NoError(t, err)
		require.Equal(t, "memtier", format)
		out, err := memtier.ParseText(bytes.NewReader(text))
		require.NoError(t, err)
		read = append(read, out)
		clients -= out.Clients()
	}
	require.Zero(t, clients)
	for name, want := range map[string]*kindSummary{"Totals": total, "Sets": set} {
		var throughput, response float64
		var cdfs [][]memtier.Quantile
		var weights []float64
		for _, out := range read {
			row, _ := out.Overall().Row(name)
			throughput += row.Throughput
			response += 1e3 * row.Throughput * row.Mean
			of, throughputs := distributions(out.Overall(), name)
			cdfs, weights = append(cdfs, of...), append(weights, throughputs...)
		}
		require.InEpsilon(t, want.Throughput, throughput, 1e-9)
		require.InEpsilon(t, want.Response, response/throughput, 1e-9)
		for share, name := range percentileNames {
			if p, ok := want.Percentiles[name]; ok {
				require.InEpsilon(t, p, 1e3*mergedPercentile(cdfs, weights, share), 1e-9)
			}
		}
	}
}
