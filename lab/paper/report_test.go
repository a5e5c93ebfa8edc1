package paper

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBrokenCellsAreRefusedWithTheirLine(t *testing.T) {
	const header = "table,row,column,printed,here,times,decimals\n"
	for text, want := range map[string]string{
		"table,row\n":                               "line 1: table,row: expected table,row,column,printed,here,times,decimals",
		header + "a,b\n":                            "record on line 2: wrong number of fields",
		header + "b,r,c,1,throughput[x],,0\n":       "line 2, table b: the file has no such table",
		header + "a,r,c,1,speed[x],,0\n":            `line 2, table a: "speed[x]", character 1: expected a metric such as throughput or p99`,
		header + "a,r,c,1,throughput,,0\n":          "expected the runs of an experiment in brackets after the metric",
		header + "a,r,c,1,throughput[x],many,0\n":   `parsing "many"`,
		header + "a,r,c,1,throughput[x],,several\n": `parsing "several"`,
	} {
		r := &Report{Tables: []Table{{Name: "a"}}}
		require.ErrorContains(t, r.read([]byte(text)), want, text)
	}
}
