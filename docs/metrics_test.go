package docs

import (
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stretchr/testify/require"

	"mcmw/internal/admin"
	"mcmw/internal/hotkeys"
	"mcmw/internal/mctest"
	"mcmw/internal/middleware"
	"mcmw/internal/route"
	"mcmw/internal/shadow"
	"mcmw/internal/stats"
)

// metricsPage returns what /metrics answers.
func metricsPage(t *testing.T) string {
	t.Helper()
	pool := func(name string) middleware.PoolOptions {
		server := route.Server{Name: name + "-server", Addr: mctest.StartMemcached(t).Addr()}
		return middleware.PoolOptions{
			Pool:    route.Pool{Name: name, Servers: []route.Server{server}},
			Writers: middleware.WritersSeveral,
		}
	}
	guttered := pool("main")
	guttered.Options.Gutter, guttered.Options.GutterTTL = "spare", 1
	start := time.Now().Add(time.Hour)
	m, err := middleware.New(middleware.Options{
		Listen: []string{"127.0.0.1:0"}, ChangeStep: time.Minute,
		Pools:      []middleware.PoolOptions{guttered, pool("spare"), pool("old"), pool("new")},
		Routes:     route.Routes{Default: "main", Prefixes: []route.Prefix{{Prefix: "old", Pool: "old"}}},
		Migrations: []middleware.Migration{{From: "old", To: "new", Start: start, End: start.Add(time.Hour)}},
		Shadows:    []middleware.ShadowOptions{{Of: "main", To: pool("test"), Options: shadow.Options{Share: 1}}},
		Follows:    []middleware.FollowOptions{{Of: "main", To: pool("eu")}},
	})
	require.NoError(t, err)
	m.Stats().Usage().Add([]byte("key"), "user", stats.Use{}, stats.Now())
	s, err := admin.Listen("127.0.0.1:0", "", slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	defer s.Close()
	s.Show(admin.Options{
		Control: new(stats.Control), Registry: m.Stats(),
		Memcached: m.AskServers, HotKeys: func(n int) hotkeys.Report { return m.HotKeys(n, false) },
	})
	response, err := http.Get("http://" + s.Addr().String() + "/metrics")
	require.NoError(t, err)
	defer response.Body.Close()
	page, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return string(page)
}

func TestEveryMetricIsInTheTableWithItsTypeAndLabels(t *testing.T) {
	page := metricsPage(t)
	exported := map[string]string{} // name -> type and labels
	for _, line := range regexp.MustCompile(`(?m)^# TYPE (mcmw_\S+) (\S+)$`).FindAllStringSubmatch(page, -1) {
		name, kind := line[1], line[2]
		series := regexp.MustCompile(`(?m)^` + name + `(?:_bucket)?(?:\{(.*)\})? `).FindStringSubmatch(page)
		require.NotNil(t, series, name)
		var labels []string
		for _, l := range regexp.MustCompile(`(\w+)="`).FindAllStringSubmatch(series[1], -1) {
			if l[1] != "le" {
				labels = append(labels, l[1])
			}
		}
		exported[name] = kind + " " + strings.Join(labels, " ")
	}
	documented := map[string]string{}
	row := regexp.MustCompile("(?m)^\\| `(mcmw_\\w+)` \\| (\\w+) \\| ?([\\w, ]*?) ?\\| ")
	for _, line := range row.FindAllStringSubmatch(read(t, "observability.md"), -1) {
		documented[line[1]] = line[2] + " " + strings.ReplaceAll(line[3], ",", "")
	}
	require.Greater(t, len(exported), 30)
	for name, typed := range exported {
		require.ElementsMatch(t, strings.Fields(typed), strings.Fields(documented[name]),
			"type and labels of %s in the table", name)
	}
	require.Len(t, documented, len(exported), "the table has metrics that do not exist")
}

func TestTheMetricsPageIsCleanForPromlint(t *testing.T) {
	problems, err := promlint.New(strings.NewReader(metricsPage(t))).Lint()
	require.NoError(t, err)
	for _, p := range problems {
		require.NotContains(t, p.Metric, "mcmw_", p.Text)
	}
}
