package report_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"mcmw/lab/plot"
	"mcmw/lab/report"
)

// shownElements is the most elements of a list that words shows.
const shownElements = 6

// words describes a value by its fields that are not zero. Numbers have four digits, long lists their number and some
// elements.
func words(v reflect.Value) string {
	switch v.Kind() {
	case reflect.Interface:
		return strings.TrimPrefix(fmt.Sprint(v.Elem().Type()), "plot.") + words(v.Elem())
	case reflect.Float64:
		return fmt.Sprintf("%.4g", v.Float())
	case reflect.Slice:
		var parts []string
		for i := range v.Len() {
			if v.Len() <= shownElements || i%(v.Len()/(shownElements-1)) == 0 {
				parts = append(parts, words(v.Index(i)))
			}
		}
		if v.Len() > shownElements {
			parts = append(parts, fmt.Sprintf("of %d", v.Len()))
		}
		return "[" + strings.Join(parts, " ") + "]"
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[plot.Unit]() {
			return v.Field(0).String()
		}
		var parts []string
		for field, value := range v.Fields() {
			if !value.IsZero() {
				parts = append(parts, field.Name+":"+words(value))
			}
		}
		return "{" + strings.Join(parts, " ") + "}"
	default:
		return fmt.Sprint(v)
	}
}

func TestTheChartsEqualTheirGoldenFile(t *testing.T) {
	numbers, v := read(t, small(t), nil)
	panels, perRatio := read(t, synthetic{
		clients: []int{6, 96}, workers: []int{8, 32}, ratios: []string{"1:0", "0:1"}, repetitions: 2, second: 2,
	}.write(t), nil)
	category, err := panels.Choose(report.View{X: "ratio", Series: "workers"})
	require.NoError(t, err)
	var got strings.Builder
	for _, of := range []struct {
		data    *report.Data
		view    report.View
		figures []string
	}{
		{numbers, v, nil},
		{panels, perRatio, []string{"throughput", "scalability"}},
		{panels, category, []string{"throughput", "stages", "utilization", "relative"}},
	} {
		figures, err := of.data.Figures(of.view, of.figures)
		require.NoError(t, err)
		for _, f := range figures {
			fmt.Fprintf(&got, "%s: %s\n", f.Name, f.Title)
			for _, c := range f.Panels {
				fmt.Fprintf(&got, "  %q x %s y %s\n", c.Title, words(reflect.ValueOf(c.X)), words(reflect.ValueOf(c.Y)))
				for i := range c.Marks {
					fmt.Fprintf(&got, "    %s\n", words(reflect.ValueOf(c.Marks).Index(i)))
				}
			}
		}
	}
	golden := filepath.Join("testdata", "charts.txt")
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(got.String()), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), got.String(), "-update rewrites it; then read it")
}
