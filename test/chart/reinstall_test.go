package chart

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// cluster serves the part of Kubernetes' API that Helm needs to look up pods, and returns the path of a kubeconfig for
// it. pods is JSON.
func cluster(t *testing.T, pods string) (kubeconfig string) {
	t.Helper()
	mux := http.NewServeMux()
	for path, answer := range map[string]string{
		"/version": `{"major": "1", "minor": "34", "gitVersion": "v1.34.0"}`,
		"/api":     `{"kind": "APIVersions", "versions": ["v1"]}`,
		"/apis":    `{"kind": "APIGroupList", "apiVersion": "v1", "groups": []}`,
		"/api/v1":  `{"kind": "APIResourceList", "groupVersion": "v1", "resources": [{"name": "pods", "namespaced": true, "kind": "Pod", "verbs": ["list"]}]}`,
		"/api/v1/namespaces/" + namespace +
			"/pods": `{"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": [` + pods + `]}`,
	} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, answer)
		})
	}
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(kubeconfig, fmt.Appendf(nil, `
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
users: [{name: u, user: {}}]
current-context: c
`, server.URL), 0o600))
	return kubeconfig
}

func TestAnInstallationWaitsForTheEndOfThePodsOfAnEarlierOne(t *testing.T) {
	const pod = `{"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "mcmw-memcached-0", %s "labels": {"app.kubernetes.io/name": "mcmw", "app.kubernetes.io/instance": "%s", "more": "x"}}}`
	const ending = `"deletionTimestamp": "2026-01-01T00:00:00Z",`
	for version, h := range helms {
		for name, c := range map[string]struct {
			pods    string
			refused bool
		}{
			"ending":             {fmt.Sprintf(pod, ending, release), true},
			"of another release": {fmt.Sprintf(pod, ending, "other"), false},
			"running":            {fmt.Sprintf(pod, "", release), false}, // which Kubernetes will refuse or adopt
			"none":               {"", false},
		} {
			t.Run(name+"/"+version, func(t *testing.T) {
				_, stderr, err := h.template(t, chartDir, "--dry-run=server", "--disable-openapi-validation",
					"--kubeconfig", cluster(t, c.pods))
				if c.refused {
					require.Error(t, err)
					require.Contains(t, stderr, "pod mcmw-memcached-0 of an earlier installation is still terminating")
					require.Contains(t, stderr,
						"kubectl --namespace cache wait --for=delete pod --selector 'app.kubernetes.io/instance=mcmw,")
					return
				}
				if err != nil { // Helm 4 then requests kinds that this cluster doesn't have
					require.Contains(t, stderr, `no matches for kind "Deployment"`)
				}
			})
		}
	}
}

func TestAMissingOperatorIsNamedBeforeAnythingIsInstalled(t *testing.T) {
	for version, h := range helms {
		for value, operator := range map[string]string{
			"metrics.serviceMonitor.enabled": "the Prometheus operator",
			"metrics.podMonitor.enabled":     "the Prometheus operator",
			"metrics.prometheusRule.enabled": "the Prometheus operator", "keda.enabled": "KEDA",
		} {
			t.Run(value+"/"+version, func(t *testing.T) {
				_, stderr, err := h.run(t, "install", release, chartDir, "--namespace", namespace, "--dry-run=server",
					"--kubeconfig", cluster(t, ""), "--set", value+"=true", "--set", "keda.prometheusAddress=http://p")
				require.Error(t, err)
				require.Contains(t, stderr, value+" is true, and this cluster has no API ")
				require.Contains(t, stderr, "install "+operator+" with its CustomResourceDefinitions first")
			})
		}
	}
}
