package main

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/lab/load"
)

// unused finds the metrics of what an installation without values has not.
var unused = regexp.MustCompile("mcmw_(shadow|migration|route|user|follow)_")

func TestAnInstallationIsReadyPassesItsTestServesALoadAndFillsTheDashboards(t *testing.T) {
	r := install(t, "install")
	for component, n := range map[string]int{"proxy": 2, "memcached": 3, "loadgen": 1} {
		pods := r.pods(component)
		require.Len(t, pods, n, component)
		for _, p := range pods {
			assert.True(t, p.ready(), "%s is not ready", p.Metadata.Name)
		}
	}
	r.helm("test", "mcmw", "--timeout", "2m")
	r.helm("upgrade", "mcmw-load", chart()+"-load", "--reuse-values", "--set",
		"test.keys=1000,test.threads=1,test.clients=4,test.seconds=3", "--wait")
	r.helm("test", "mcmw-load", "--timeout", "2m")

	// Debian's Prometheus has no discovery of Kubernetes, but of DNS: the headless Service has the addresses of all
	// pods.
	r.startPrometheus(fmt.Sprintf("{job_name: mcmw-metrics, dns_sd_configs: [{names: "+
		"[mcmw-metrics.%s.svc.cluster.local], type: A, port: 9150, refresh_interval: 1s}]}", r.namespace), 2)
	begun := time.Now()
	// Each client sets keys of its own: a key that two set at once may lack a copy until the next sweeps.
	result := r.load("--threads", "1", "--clients", "4", "--ratio", "1:9", "--key-pattern", "P:R", "--data-size", "64",
		"--multi-key-get", "3", "--populate", "--data-verify", "--test-time", "20")
	require.Positive(t, result.Total.Requests)
	require.Zero(t, result.Total.Misses)
	t.Logf("%.0f requests per second from the load pod", result.Total.OpsPerSec)

	asked := 0
	for _, q := range dashboardQueries(t) {
		if unused.MatchString(q) {
			continue
		}
		asked++
		eventually(t, q, func() error { return r.answers(q, begun) }) // some have data under load only
	}
	t.Logf("%d queries of the dashboards have data", asked)
}

// load runs mcmwlab load in a load pod.
func (r *release) load(args ...string) *load.Result {
	r.t.Helper()
	result, err := r.tryLoad(args...)
	require.NoError(r.t, err)
	return result
}

// tryLoad is load, and returns an error if a request fails.
func (r *release) tryLoad(args ...string) (*load.Result, error) {
	out, err := r.tryKubectl(append([]string{
		"exec", "mcmw-load-0", "--", "/mcmwlab", "load", "--quiet", "--server", "mcmw",
		"--port", "11311", "--json-out-file", "-",
	}, args...)...)
	if err != nil {
		return nil, err
	}
	result := new(load.Result)
	return result, json.Unmarshal([]byte(out), result)
}

// startPrometheus starts a Prometheus in the release's namespace that scrapes every second, with a scrape configuration
// in YAML's flow style, and waits until it has a number of targets.
func (r *release) startPrometheus(scraped string, targets int) {
	r.t.Helper()
	manifest, err := os.ReadFile("testdata/prometheus.yaml")
	require.NoError(r.t, err)
	r.apply(strings.ReplaceAll(string(manifest), "SCRAPED", scraped))
	r.kubectl("rollout", "status", "deployment/prometheus", "--timeout", "2m")
	eventually(r.t, "Prometheus scrapes", func() error {
		return r.answers(fmt.Sprintf(`count(up{job="mcmw-metrics"} == 1) >= %d`, targets), time.Now())
	})
}

// answers returns an error if Prometheus has had no answer to a query since a time.
func (r *release) answers(query string, since time.Time) error {
	path := fmt.Sprintf("/api/v1/namespaces/%s/services/prometheus:9090/proxy/api/v1/query_range?query=%s&start=%d&"+
		"end=%d&step=1", r.namespace, url.QueryEscape(query), since.Unix(), time.Now().Unix())
	out, err := r.tryKubectl("get", "--raw", path)
	if err != nil {
		return err
	}
	var answer struct {
		Status string
		Data   struct{ Result []json.RawMessage }
	}
	if err := json.Unmarshal([]byte(out), &answer); err != nil {
		return err
	}
	if answer.Status != "success" || len(answer.Data.Result) == 0 {
		return fmt.Errorf("no data: %s: %s", query, out)
	}
	return nil
}

// dashboardQueries returns the queries of all panels of the dashboards, for all jobs, instances and servers.
func dashboardQueries(t *testing.T) (queries []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "dashboards/*.json"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	variables := strings.NewReplacer("$__rate_interval", "1m", "$namespace", ".*", "$job", ".+", "$instance", ".+",
		"$server", ".+")
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		var board struct {
			Panels []struct{ Targets []struct{ Expr string } }
		}
		require.NoError(t, json.Unmarshal(text, &board))
		for _, p := range board.Panels {
			for _, target := range p.Targets {
				queries = append(queries, variables.Replace(target.Expr))
			}
		}
	}
	return queries
}
