package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/variants"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/heatmap"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/statetimeline"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
	"github.com/stretchr/testify/require"
)

// written is the directory of the generated dashboards.
const written = "../../../dashboards"

func TestTheGeneratedDashboardsAreUpToDate(t *testing.T) {
	names := map[string]bool{}
	for _, b := range boards() {
		text, err := b.json()
		require.NoError(t, err)
		kept, err := os.ReadFile(filepath.Join(written, b.name+".json"))
		require.NoError(t, err)
		require.Equal(t, string(text), string(kept), "run go generate in internal/tools/dashboards")
		names[b.name+".json"] = true
	}
	files, err := os.ReadDir(written)
	require.NoError(t, err)
	for _, f := range files {
		require.True(t, names[f.Name()], "%s has no description in Go", f.Name())
	}
}

func TestTheDashboardsConformToGrafanasSchema(t *testing.T) {
	runtime := cog.NewRuntime()
	runtime.RegisterDataqueryVariant(prometheus.VariantConfig())
	for _, v := range []variants.PanelcfgConfig{
		heatmap.VariantConfig(), stat.VariantConfig(), statetimeline.VariantConfig(), timeseries.VariantConfig(),
	} {
		runtime.RegisterPanelcfgVariant(v)
	}
	for _, b := range boards() {
		t.Run(b.name, func(t *testing.T) {
			text, err := b.json()
			require.NoError(t, err)
			var read dashboard.Dashboard
			require.NoError(t, read.UnmarshalJSONStrict(text))
			require.NoError(t, read.Validate())
			misspelled := bytes.Replace(text, []byte(`"reduceOptions"`), []byte(`"reduceOption"`), 1)
			require.Equal(t, bytes.Contains(text, []byte(`"reduceOptions"`)),
				read.UnmarshalJSONStrict(misspelled) != nil)
		})
	}
}
