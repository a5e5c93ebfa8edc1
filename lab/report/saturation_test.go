package report_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"mcmw/lab/record"
	"mcmw/lab/report"
)

// throughputs returns a record of one line: the throughputs of the repetitions for each number of clients.
func throughputs(t *testing.T, byClients map[int][]float64) (*report.Data, report.View) {
	r := newRecord(t, record.Manifest{Name: "noisy"})
	for clients, row := range byClients {
		for i, x := range row {
			require.NoError(t, r.Add(record.Run{
				Point: clients, Repetition: i, State: record.Complete, Seconds: 10,
				Factors: map[string]string{"clients": fmt.Sprint(clients)},
				Results: []record.Value{{Source: "client", Metric: "throughput", Value: x}},
			}))
		}
	}
	return read(t, r, nil)
}

func TestWithOverlappingIntervalsSaturationIsUnknown(t *testing.T) {
	for name, tc := range map[string]struct {
		of         map[int][]float64
		say, never []string
	}{
		"wide": {
			of: map[int][]float64{6: {1000, 2900, 5100}, 12: {3900, 5000, 6100}, 24: {2000, 4500, 7000}},
			say: []string{"where it saturates, and whether the throughput falls at the highest load, can't be " +
				"told: from clients = 6 on,"},
			never: []string{"over-saturated", "saturated at"},
		},
		"wide and growing": {
			of:    map[int][]float64{6: {1000, 2000, 3000}, 12: {1500, 3000, 4500}},
			say:   []string{"where it saturates can't be told: from clients = 6 on,"},
			never: []string{"not saturated", "falls"},
		},
		"narrow": {
			of:    map[int][]float64{6: {2990, 3000, 3010}, 12: {4990, 5000, 5010}, 24: {4490, 4500, 4510}},
			say:   []string{"saturated at clients = 12", "over-saturated at the highest load"},
			never: []string{"can't be told"},
		},
		"single runs": {
			of: map[int][]float64{6: {3000}, 12: {5000}, 24: {4500}},
			say: []string{
				"saturated at clients = 12",
				"some loads were measured in a single run, so this may be chance",
			},
			never: []string{"overlap"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, v := throughputs(t, tc.of)
			words := d.Panels(v)[0].Lines[0].Words(v)
			for _, text := range tc.say {
				require.Contains(t, words, text)
			}
			for _, text := range tc.never {
				require.NotContains(t, words, text)
			}
		})
	}
}
