package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/stats"
)

// routesOf returns the answer of /api/routes, both decoded and raw.
func routesOf(t *testing.T, url string) (list []Route, body string) {
	t.Helper()
	status, header, body := get(t, "GET", url+"/api/routes")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "application/json", header.Get("Content-Type"))
	var answer struct{ Routes []Route }
	require.NoError(t, json.Unmarshal([]byte(body), &answer))
	return answer.Routes, body
}

func TestARouteIsShownWithTheGutterShadowAndMigrationsOfItsPool(t *testing.T) {
	shown := []stats.Route{
		{Prefix: "s:", Pool: "x", Reads: "r"},
		{Prefix: "t:", Pool: "y", Strip: true},
		{Default: true, Pool: "z"},
	}
	_, url := serve(t, Options{Registry: stats.New(stats.Options{
		Routes: shown,
		State: func(s *stats.Snapshot) {
			s.Gutters = []stats.GutterSnapshot{{Pool: "x", Gutter: "g"}}
			s.Shadows = []stats.ShadowSnapshot{{Of: "y", To: "h"}}
			s.Migrations = []stats.Migration{{From: "x", To: "y", Phase: "done"}, {From: "y", To: "n", Phase: "copy"}}
		},
	})})
	want := []Route{
		{Route: shown[0], Gutter: "g", Migrations: []string{"to y: done"}},
		{Route: shown[1], Shadow: "h", Migrations: []string{"from x: done", "to n: copy"}},
		{Route: shown[2]},
	}
	list, _ := routesOf(t, url)
	assert.Equal(t, want, list)
	report := statsOf(t, url+"/api/stats")
	assert.Equal(t, want, report.Routes)
	assert.Zero(t, report.RoutesLeft)
}

func TestAPrefixIsShownAsTextWhateverBytesItHas(t *testing.T) {
	_,
		url := serve(t,
		Options{Registry: stats.New(stats.Options{Routes: []stats.Route{{
			Prefix: "<b>\x00\n\"\\\xffä\u202e ",
			Pool:   "x",
		}}})})
	list, body := routesOf(t, url)
	assert.Equal(t, `<b>\x00\n\"\\\xffä\u202e `, list[0].Prefix)
	assert.NotContains(t, body, "<b>")
}

func TestThePageShowsTheFirstRoutesAndTheAPIAllRoutes(t *testing.T) {
	var many []stats.Route
	for i := range 1001 {
		many = append(many, stats.Route{Prefix: fmt.Sprintf("%04d:", i), Pool: "x"})
	}
	_, url := serve(t, Options{Registry: stats.New(stats.Options{Routes: many})})
	report := statsOf(t, url+"/api/stats")
	assert.Len(t, report.Routes, 50)
	assert.Equal(t, 951, report.RoutesLeft)
	list, _ := routesOf(t, url)
	assert.Len(t, list, 1001)
}

func TestWithoutPoolsThereAreNoRoutes(t *testing.T) {
	_, url := serve(t, Options{})
	list, body := routesOf(t, url)
	assert.Empty(t, list)
	assert.JSONEq(t, `{"routes": []}`, body)
}
