package prometheus

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// program is a running Prometheus of the system's package.
type program struct {
	url string
}

// startPrometheus scrapes target every second, and evaluates the rules, until the test ends. It stores only classic
// histograms, as by default.
func startPrometheus(t *testing.T, target string) *program {
	t.Helper()
	dir := t.TempDir()
	var files []string
	for _, file := range ruleFiles {
		path, err := filepath.Abs(file)
		require.NoError(t, err)
		files = append(files, path)
	}
	list, err := json.Marshal(files)
	require.NoError(t, err)
	configuration := filepath.Join(dir, "prometheus.yml")
	require.NoError(t, os.WriteFile(configuration, fmt.Appendf(nil, `
global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}
rule_files: %s
scrape_configs: [{job_name: cache, static_configs: [{targets: [%q]}]}]
`, list, target), 0o600))

	// The port is chosen in advance, so another process may take it first.
	for range 10 {
		if p := tryPrometheus(t, freePort(t), configuration, filepath.Join(dir, "data")); p != nil {
			return p
		}
	}
	require.FailNow(t, "Prometheus does not start")
	return nil
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

// tryPrometheus returns nil when the program ends before it is ready.
func tryPrometheus(t *testing.T, address, configuration, data string) *program {
	t.Helper()
	var log strings.Builder
	cmd := exec.Command("prometheus", "--config.file", configuration, "--storage.tsdb.path", data,
		"--web.listen-address", address)
	cmd.Stderr = &log
	require.NoError(t, cmd.Start(), "Debian's package prometheus is needed")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // its data is not needed
		<-ended
		if t.Failed() {
			t.Logf("Prometheus wrote:\n%s", log.String())
		}
	})
	p := &program{url: "http://" + address}
	deadline := time.After(patience)
	poll := time.NewTicker(100 * time.Millisecond)
	defer poll.Stop()
	for {
		if r, err := http.Get(p.url + "/-/ready"); err == nil {
			r.Body.Close()
			if r.StatusCode == http.StatusOK {
				return p
			}
		}
		select {
		case <-ended:
			return nil
		case <-deadline:
			require.FailNow(t, "Prometheus does not become ready")
		case <-poll.C:
		}
	}
}

// values returns the current values of an expression.
func (p *program) values(expr string) ([]string, error) {
	r, err := http.PostForm(p.url+"/api/v1/query", url.Values{"query": {expr}})
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	var answer struct {
		Error string
		Data  struct {
			Result []struct{ Value [2]any }
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&answer); err != nil {
		return nil, err
	}
	if answer.Error != "" {
		return nil, fmt.Errorf("%s", answer.Error)
	}
	var values []string
	for _, v := range answer.Data.Result {
		values = append(values, fmt.Sprint(v.Value[1]))
	}
	return values, nil
}

// answered reports whether there is a value other than NaN.
func (p *program) answered(expr string) (bool, error) {
	values, err := p.values(expr)
	for _, v := range values {
		if v != "NaN" {
			return true, err
		}
	}
	return false, err
}

func TestEveryExpressionHasDataInDebiansPrometheusWithClassicHistograms(t *testing.T) {
	p := startPrometheus(t, startLoaded(t))
	requireAnswers(t, p.answered)

	values, err := p.values(`ALERTS{alertstate="firing"}`)
	require.NoError(t, err)
	require.Empty(t, values, "an alert fires although nothing is wrong")
}
