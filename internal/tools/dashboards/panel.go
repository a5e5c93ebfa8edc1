package main

import (
	"maps"
	"slices"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/heatmap"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/statetimeline"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// The grid is 24 columns wide.
const (
	third   = 8
	half    = 12
	whole   = 24
	height  = 8
	lowRow  = 4 // height of single numbers
	sixth   = 4
	quarter = 6
)

// kind is how a panel draws its queries.
type kind int

const (
	lines    kind = iota // lines over time
	stack                // areas on top of each other
	percents             // areas as shares of their sum
	heat                 // a histogram over time
	number               // the latest value of each series
	states               // a band per series, colored by value
)

// query is a PromQL expression with the legend of its series.
type query struct {
	expr, legend string
}

// panel is a panel as the dashboards describe it.
type panel struct {
	kind        kind
	title       string
	description string
	unit        string // Grafana's name: s, reqps, percentunit ...
	width       uint32
	queries     []query

	log    bool              // a logarithmic scale
	colors map[string]string // by the name of the series
	marks  []mark            // for numbers: the colors
	values map[string]mark   // for states: text and color by value
}

// mark is a color for values of at least from, or the text and color of a state.
type mark struct {
	from        float64
	text, color string
}

// The colors of the stages, and of good and bad values, as on the live page.
var (
	stageColors = map[string]string{
		"net": "#8f9db1", "queue": "#e5a03a", "worker": "#4a80dc", "server": "#2c9f78",
		"reply": "#a56fd0",
	}
	badAt = func(warning, limit float64) []mark {
		return []mark{{color: good}, {from: warning, color: warn}, {from: limit, color: bad}}
	}
)

const (
	good = "green"
	warn = "orange"
	bad  = "red"
)

// source is the data source that the dashboard's variable selects.
var source = common.DataSourceRef{Type: cog.ToPtr("prometheus"), Uid: cog.ToPtr("$datasource")}

// Build returns Grafana's panel. It implements cog.Builder for dashboard.DashboardBuilder.WithPanel.
func (p panel) Build() (dashboard.Panel, error) {
	built, err := p.drawn()
	if err != nil {
		return built, err
	}
	built.Title, built.Description, built.Datasource = &p.title, &p.description, &source
	built.GridPos = &dashboard.GridPos{W: p.width, H: height}
	if p.kind == number {
		built.GridPos.H = lowRow
	}
	for i, q := range p.queries {
		target := prometheus.NewDataqueryBuilder().Expr(q.expr).RefId(string(rune('A' + i))).Datasource(source).Range()
		switch p.kind {
		case heat:
			target.Format(prometheus.PromQueryFormatHeatmap)
		case number:
			target.Instant()
		}
		if q.legend != "" {
			target.LegendFormat(q.legend)
		}
		t, err := target.Build()
		if err != nil {
			return built, err
		}
		built.Targets = append(built.Targets, t)
	}
	return built, nil
}

// drawn returns the panel with the parts that depend on its kind.
func (p panel) drawn() (dashboard.Panel, error) {
	switch p.kind {
	case heat:
		return heatmap.NewPanelBuilder().
			Unit(p.unit).
			Color(heatmap.NewHeatmapColorOptionsBuilder().Mode(heatmap.HeatmapColorModeScheme).Scheme("Spectral").
				Scale(heatmap.HeatmapColorScaleExponential).Exponent(0.5).Steps(64).Reverse(true).Fill("dark-orange")).
			YAxis(heatmap.NewYAxisConfigBuilder().Unit(p.unit).AxisPlacement(common.AxisPlacementLeft)).
			CellGap(0).
			Build()
	case number:
		return stat.NewPanelBuilder().
			Unit(p.unit).
			ColorMode(common.BigValueColorModeValue).GraphMode(common.BigValueGraphModeNone).
			ReduceOptions(common.NewReduceDataOptionsBuilder().Calcs([]string{"lastNotNull"})).
			Thresholds(p.thresholds()).
			NoValue("–").
			Build()
	case states:
		results := map[string]dashboard.ValueMappingResult{}
		for value, m := range p.values {
			results[value] = dashboard.ValueMappingResult{Text: cog.ToPtr(m.text), Color: cog.ToPtr(m.color)}
		}
		return statetimeline.NewPanelBuilder().
			Unit(p.unit).
			Mappings([]dashboard.ValueMapping{{ValueMap: &dashboard.ValueMap{
				Type:    dashboard.MappingTypeValueToText,
				Options: results,
			}}}).
			Legend(common.NewVizLegendOptionsBuilder().DisplayMode(common.LegendDisplayModeList).
				Placement(common.LegendPlacementBottom).ShowLegend(true)).
			Build()
	}
	return p.series()
}

// series returns a panel with lines or stacks.
func (p panel) series() (dashboard.Panel, error) {
	b := timeseries.NewPanelBuilder().
		Unit(p.unit).Min(0).
		LineWidth(1.5).ShowPoints(common.VisibilityModeNever).
		Legend(common.NewVizLegendOptionsBuilder().DisplayMode(common.LegendDisplayModeList).
			Placement(common.LegendPlacementBottom).ShowLegend(true)).
		Tooltip(common.NewVizTooltipOptionsBuilder().Mode(common.TooltipDisplayModeMulti).
			Sort(common.SortOrderDescending))
	switch p.kind {
	case lines:
		b.FillOpacity(8)
	case stack:
		b.FillOpacity(70).LineWidth(0).
			Stacking(common.NewStackingConfigBuilder().Mode(common.StackingModeNormal).Group("A"))
	case percents:
		b.FillOpacity(70).LineWidth(0).
			Stacking(common.NewStackingConfigBuilder().Mode(common.StackingModePercent).Group("A"))
	}
	if p.log {
		b.ScaleDistribution(common.NewScaleDistributionConfigBuilder().Type(common.ScaleDistributionLog).Log(10))
	}
	for _, name := range slices.Sorted(maps.Keys(p.colors)) {
		b.OverrideByName(name, []dashboard.DynamicConfigValue{
			{Id: "color", Value: map[string]string{"mode": "fixed", "fixedColor": p.colors[name]}},
		})
	}
	return b.Build()
}

func (p panel) thresholds() cog.Builder[dashboard.ThresholdsConfig] {
	steps := []dashboard.Threshold{{Color: "text"}}
	for i, m := range p.marks {
		if i == 0 {
			steps[0].Color = m.color // from minus infinity
			continue
		}
		steps = append(steps, dashboard.Threshold{Value: cog.ToPtr(m.from), Color: m.color})
	}
	return dashboard.NewThresholdsConfigBuilder().Mode(dashboard.ThresholdsModeAbsolute).Steps(steps)
}
