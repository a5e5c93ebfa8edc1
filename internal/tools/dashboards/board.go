package main

import (
	"encoding/json"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// board is a dashboard: rows of panels.
type board struct {
	name        string // the name of the file, and the UID in Grafana
	title       string
	description string
	from        string // the length of the default time range
	refresh     string
	variables   []variable // in addition to data source, namespace, job and instance
	rows        []row
}

// row is a titled row of panels.
type row struct {
	title  string
	panels []panel
}

// variable is a variable whose values are the values of a label.
type variable struct {
	name, title, metric, label string
}

// boards are all dashboards.
func boards() []board {
	return []board{overview(), saturation(), servers(), experiment()}
}

// json returns the dashboard as Grafana imports it.
func (b board) json() ([]byte, error) {
	builder := dashboard.NewDashboardBuilder(b.title).
		Uid(b.name).
		Description(b.description).
		Tags([]string{"mcmw"}).
		Readonly().
		Tooltip(dashboard.DashboardCursorSyncCrosshair).
		Time("now-"+b.from, "now").
		Refresh(b.refresh).
		Link(dashboard.NewDashboardLinkBuilder("mcmw").Type(dashboard.DashboardLinkTypeDashboards).
			Tags([]string{"mcmw"}).
			IncludeVars(true).KeepTime(true)).
		WithVariable(dashboard.NewDatasourceVariableBuilder("datasource").Label("Data source").Type("prometheus")).
		// also matches series without a namespace
		WithVariable(choice(variable{"namespace", "Namespace", "mcmw_build_info", "namespace"}).AllValue(".*")).
		WithVariable(choice(variable{"job", "Job", `mcmw_build_info{namespace=~"$namespace"}`, "job"})).
		WithVariable(choice(variable{
			"instance", "Instance", `mcmw_build_info{namespace=~"$namespace",job=~"$job"}`,
			"instance",
		}))
	for _, v := range b.variables {
		builder.WithVariable(choice(v))
	}
	for _, r := range b.rows {
		builder.WithRow(dashboard.NewRowBuilder(r.title))
		for _, p := range r.panels {
			builder.WithPanel(p)
		}
	}
	built, err := builder.Build()
	if err != nil {
		return nil, err
	}
	for i := range built.Panels {
		id := uint32(i + 1)
		if p := built.Panels[i].Panel; p != nil {
			p.Id = &id
		} else {
			built.Panels[i].RowPanel.Id = id
		}
	}
	text, err := json.MarshalIndent(built, "", "  ")
	return append(text, '\n'), err
}

// choice returns a variable that can select several values; all are selected at first.
func choice(v variable) *dashboard.QueryVariableBuilder {
	return dashboard.NewQueryVariableBuilder(v.name).
		Label(v.title).
		Datasource(source).
		Query(dashboard.StringOrMap{String: cog.ToPtr("label_values(" + v.metric + ", " + v.label + ")")}).
		Refresh(dashboard.VariableRefreshOnTimeRangeChanged).
		Sort(dashboard.VariableSortAlphabeticalAsc).
		Multi(true).IncludeAll(true).AllValue(".+").
		Current(dashboard.VariableOption{
			Text:  dashboard.StringOrArrayOfString{ArrayOfString: []string{"All"}},
			Value: dashboard.StringOrArrayOfString{ArrayOfString: []string{"$__all"}},
		})
}
