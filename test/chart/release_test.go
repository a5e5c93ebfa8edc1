package chart

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// chartMetadata has the fields of a Chart.yaml that the tests use.
type chartMetadata struct {
	Version, AppVersion, Home, Icon string
	Sources                         []string
	Annotations                     map[string]string
}

func readMetadata(t *testing.T, dir string) (m chartMetadata) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "Chart.yaml"))
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, &m))
	return m
}

func TestTheReleasedChartsNameTheirSourceImagesAndRunbooks(t *testing.T) {
	dir := t.TempDir()
	version := readMetadata(t, chartDir).Version
	const source, repository = "https://example.com/team/mcmw", "registry.example.com/team"
	out, err := exec.Command("../../deploy/helm/release", version, source, repository, dir).CombinedOutput()
	require.NoError(t, err, "%s", out)
	load := filepath.Join(dir, "mcmw-load")
	dir = filepath.Join(dir, "mcmw")
	require.Equal(t, readMetadata(t, dir), readMetadata(t, load), "but for the fields that differ")
	m := readMetadata(t, dir)
	require.Equal(t, source, m.Home)
	require.Equal(t, []string{source}, m.Sources)
	require.True(t, strings.HasPrefix(m.Icon, "data:image/svg+xml,"))
	require.Equal(t, "Apache-2.0", m.Annotations["artifacthub.io/license"])
	var images, links []map[string]string
	require.NoError(t, yaml.Unmarshal([]byte(m.Annotations["artifacthub.io/images"]), &images))
	require.Equal(t, repository+"/mcmw:"+version, images[0]["image"])
	require.NoError(t, yaml.Unmarshal([]byte(m.Annotations["artifacthub.io/links"]), &links))
	for _, link := range links {
		path := strings.TrimPrefix(link["url"], source+"/blob/v"+version+"/")
		require.FileExists(t, filepath.Join("../..", path))
	}
	for name, h := range helms {
		o := renderDir(t, h, dir, "--set", "metrics.prometheusRule.enabled=true")
		_, c := o.proxy(t)
		require.Equal(t, repository+"/mcmw:"+version, c.Image)
		for _, group := range of[*monitoringv1.PrometheusRule](o)[0].Spec.Groups {
			for _, r := range group.Rules {
				if r.Alert != "" {
					require.Equal(t, source+"/blob/v"+version+"/docs/runbooks/"+r.Alert+".md",
						r.Annotations["runbook_url"])
				}
			}
		}
		require.Equal(t, repository+"/mcmwlab:"+version,
			renderDir(t, h, load, "--set", "generator=mcmwlab").pods()[0].spec.Containers[0].Image)
		for _, dir := range []string{dir, load} {
			_, stderr, err := h.run(t, "lint", "--strict", dir)
			require.NoError(t, err, "%s: %s", name, stderr)
		}
	}

	out, err = exec.Command("../../deploy/helm/release", "9.9.9", source, repository, t.TempDir()).CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "expected version: 9.9.9")
}
