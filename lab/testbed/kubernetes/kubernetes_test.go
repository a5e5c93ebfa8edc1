package kubernetes

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"

	"mcmw/lab/experiment"
	"mcmw/lab/testbed"
)

const chart = "../../../deploy/helm/mcmw"

// reads returns an experiment on a cluster, with additional lines.
func reads(t *testing.T, lines ...string) *experiment.Experiment {
	t.Helper()
	text := "name: reads\ntestbed: {kind: kubernetes, chart: " + chart + ", namespace: lab}\n" +
		strings.Join(lines, "\n")
	e, err := experiment.Parse("reads.yaml", []byte(text), false)
	require.NoError(t, err)
	return e
}

// fakes replaces kubectl and helm by scripts that append their arguments to the file whose path is returned.
func fakes(t *testing.T, kubectl, helm string) (calls string) {
	t.Helper()
	dir := t.TempDir()
	calls = filepath.Join(dir, "calls")
	for name, script := range map[string]string{"kubectl": kubectl, "helm": helm} {
		text := fmt.Sprintf("#!/bin/sh\necho %s \"$@\" >>%s\n%s\n", name, calls, script)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755))
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return calls
}

func TestWithoutTheToolsTheErrorSaysWhatToInstall(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := New(reads(t))
	require.ErrorContains(t, err, "needs kubectl in PATH; to install it see https://kubernetes.io/docs/tasks/tools/")
	require.ErrorContains(t, err, "needs helm in PATH; to install it see https://helm.sh/docs/intro/install/")
	require.Error(t, Cleanup(t.Context(), "", new(bytes.Buffer)))
}

func TestAnExperimentThatCannotBeInstalledIsRefusedBeforeAnythingIsMade(t *testing.T) {
	calls := fakes(t, "", "")
	e := reads(t)
	e.Kubernetes.Values = []string{"/nowhere/values.yaml"}
	_, err := New(e)
	require.ErrorContains(t, err, "file of values for the chart: open /nowhere/values.yaml")
	e = reads(t)
	e.Kubernetes.Chart = "/nowhere"
	_, err = New(e)
	require.ErrorContains(t, err, "/nowhere is not a chart: ")
	_, err = New(reads(t, "constants: {server_delay: 1ms}"))
	require.ErrorContains(t, err,
		"server_delay: 1ms: the testbed kubernetes does not support this setting; use the testbed local or vm")

	_, err = New(reads(t, "constants: {middleware_flags: --stats-window=1s}"))
	require.ErrorContains(t, err, "the testbed kubernetes sets the statistics log itself")
	assert.NoFileExists(t, calls)
}

func TestAnExistingNamespaceIsNotTouched(t *testing.T) {
	calls := fakes(t, `echo 'Error from server (AlreadyExists): namespaces "lab" already exists' >&2; exit 1`, "")
	bed, err := New(reads(t))
	require.NoError(t, err)
	_, err = bed.Describe(t.Context())
	require.EqualError(t, err,
		"the namespace lab exists already; choose another name: the lab removes its namespace at the end")
	require.NoError(t, bed.Close())
	made, err := os.ReadFile(calls)
	require.NoError(t, err)
	assert.Equal(t, "kubectl create --filename -\n", string(made))
}

func TestAFailedInstallationReportsTheEventsOfTheClusterAndIsRemoved(t *testing.T) {
	calls := fakes(t, `case "$*" in *events*) echo 'load-mcmw-load-0: no node has room' ;; esac`,
		`echo 'Error: context deadline exceeded' >&2; exit 1`)
	bed, err := New(reads(t))
	require.NoError(t, err)
	_, err = bed.Deploy(t.Context(), nil)
	require.ErrorContains(t, err, "installing the chart: helm install load ")
	require.ErrorContains(t, err, "Error: context deadline exceeded\nload-mcmw-load-0: no node has room")
	_, again := bed.Deploy(t.Context(), nil)
	require.Equal(t, err, again, "without load pods no further point can be deployed")
	require.NoError(t, bed.Close())
	made, err := os.ReadFile(calls)
	require.NoError(t, err)
	assert.Contains(t, string(made), "kubectl delete namespace lab --ignore-not-found")
}

func TestAClusterThatDoesNotAnswerIsNamed(t *testing.T) {
	fakes(t, `echo 'The connection to the server localhost:8080 was refused' >&2; exit 1`, "")
	bed, err := New(reads(t))
	require.NoError(t, err)
	_, err = bed.Describe(t.Context())
	require.ErrorContains(t, err,
		"making the namespace lab: kubectl create --filename -: The connection to the server localhost:8080 was "+
			"refused; expected kubectl's context to reach a cluster")
	require.NoError(t, bed.Close())
}

func TestAToolEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := run(ctx, "", "sleep", "1000")
	require.ErrorIs(t, err, context.Canceled)
}

func TestCleanupRemovesOnlyNamespacesOfLabsThatHaveEnded(t *testing.T) {
	host, err := os.Hostname()
	require.NoError(t, err)
	this, err := labOf(os.Getpid())
	require.NoError(t, err)
	dead := fmt.Sprintf("%s/%d/1", host, os.Getpid())
	odd := dead + "/2"
	namespaces := func(owners map[string]string) string {
		items := []tree{}
		for _, name := range []string{"alive", "dead", "other", "odd", "unknown"} {
			items = append(items, tree{"metadata": tree{"name": name, "annotations": tree{ownerKey: owners[name]}}})
		}
		return tree{"items": items}.text()
	}
	text := namespaces(map[string]string{"alive": this, "dead": dead, "other": "elsewhere/1/1", "odd": odd})
	calls := fakes(t, "cat <<'END'\n"+text+"\nEND", "")
	var out bytes.Buffer
	require.NoError(t, Cleanup(t.Context(), "test", &out))
	assert.Equal(t, fmt.Sprintf(`kept the Kubernetes namespace alive: its lab, process %d, is running
removed the Kubernetes namespace dead of the lab that was process %d
kept the Kubernetes namespace other: its lab (elsewhere/1/1) may be running; if it is not: kubectl delete namespace other
kept the Kubernetes namespace odd: its lab (%s) may be running; if it is not: kubectl delete namespace odd
kept the Kubernetes namespace unknown: its lab () may be running; if it is not: kubectl delete namespace unknown
`, os.Getpid(), os.Getpid(), odd), out.String())
	made, err := os.ReadFile(calls)
	require.NoError(t, err)
	assert.Equal(t, 1, strings.Count(string(made), "delete namespace"))
	assert.Contains(t, string(made), "kubectl --context test delete namespace dead ")
}

func TestTheStatisticsLogIsSeparatedFromOtherLines(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lines := rapid.SliceOf(rapid.SampledFrom([]string{
			`{"type":"window","until":5}`, "level=WARN msg=late", "{",
			"",
		})).Draw(t, "lines")
		text := strings.Join(lines, "\n") + "\n"
		var statistics, messages bytes.Buffer
		f := logFilter(&statistics, &messages)
		for len(text) > 0 {
			n := rapid.IntRange(1, len(text)).Draw(t, "n")
			_, err := f.Write([]byte(text[:n]))
			require.NoError(t, err)
			text = text[n:]
		}
		require.Equal(t, strings.Count(strings.Join(lines, "\n"), "type"), strings.Count(statistics.String(), "\n"))
		require.NotContains(t, messages.String(), "type")
		require.NotContains(t, statistics.String(), "late")
	})
}

// unknown returns the keys of values that the chart's schema doesn't have.
func unknown(schema map[string]any, values tree, at string) (keys []string) {
	properties, _ := schema["properties"].(map[string]any)
	for key, value := range values {
		of, ok := properties[key].(map[string]any)
		if !ok {
			if schema["additionalProperties"] == false {
				keys = append(keys, at+key)
			}
			continue
		}
		if inner, ok := value.(tree); ok {
			keys = append(keys, unknown(of, inner, at+key+".")...)
		}
	}
	return keys
}

func schemaOf(t *testing.T, chart string) (schema map[string]any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(chart, "values.schema.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &schema))
	return schema
}

func TestTheLoadPodsHaveTheValuesOfLoadgenInTheFilesAndTheirImages(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	first := file("first.yaml", "image: {repository: registry.example.com/mcmw}\nimagePullSecrets: [{name: pull}]\n"+
		"loadgen: {enabled: true, generator: memtier, nodeSelector: {pool: a}, image: {tag: dev}}\n")
	second := file("second.yaml", "replicas: 7\nloadgen: {replicas: 5, nodeSelector: {disk: ssd}}\n")
	given, err := readValues([]string{first, second})
	require.NoError(t, err)
	values := loadValues(2, given)
	assert.JSONEq(t, `{"replicas": 5, "generator": "mcmwlab", "command": [], "jobs": [], "imagePullSecrets": `+
		`[{"name": "pull"}], "nodeSelector": {"pool": "a", "disk": "ssd"}, "image": `+
		`{"repository": "registry.example.com/mcmwlab", "tag": "dev"}}`, values.text())
	assert.Empty(t, unknown(schemaOf(t, chart+"-load"), values, ""))
	assert.JSONEq(t, `{"replicas": 2, "generator": "mcmwlab", "command": [], "jobs": []}`,
		loadValues(2, nil).text())
	assert.Equal(t, tree{"pool": "a", "disk": "ssd"}, given["loadgen"].(tree)["nodeSelector"])
	point := given.with(tree{"image": tree{"tag": "x"}, "replicas": nil})
	assert.JSONEq(t, `{"image": {"repository": "registry.example.com/mcmw", "tag": "x"}, "replicas": null}`,
		tree{"image": point["image"], "replicas": point["replicas"]}.text())
	assert.Equal(t, tree{"repository": "registry.example.com/mcmw"}, given["image"], "it is not changed")

	// The clients of the 2018 report are the same with helm and with the lab.
	given, err = readValues([]string{chart + "-load/mcmw-azure-asl.yaml"})
	require.NoError(t, err)
	azure := loadValues(1, given)
	var same tree
	text, err := os.ReadFile(chart + "-load/values-azure-asl.yaml")
	require.NoError(t, err)
	require.NoError(t, yaml.Unmarshal(text, &same))
	delete(same, "test")
	for key, value := range same {
		assert.Equal(t, value, azure[key], key)
	}

	for _, text := range []string{"loadgen: {podLabels: {1: a}}\n", "a: [\n"} {
		_, err = readValues([]string{file("bad.yaml", text)})
		require.ErrorContains(t, err, "file of values for the chart: ")
	}
	_, err = readValues([]string{filepath.Join(dir, "missing.yaml")})
	require.ErrorContains(t, err, "file of values for the chart: ")
}

func TestTheChartHasEveryValueThatIsSet(t *testing.T) {
	schema := schemaOf(t, chart)
	e := reads(t, "factors: {servers: [1, 3], load_processes: [1, 2]}",
		"constants: {server_flags: -o modern, sharded: true, server_memory: 1000}")
	point := e.Points[len(e.Points)-1].Values
	for _, values := range []tree{standardValues(1000), pointValues(point)} {
		assert.Empty(t, unknown(schema, values, ""))
	}
	assert.Equal(t, []string{"nonsense"}, unknown(schema, tree{"nonsense": 1}, ""))
	assert.JSONEq(t,
		`{"resources": {"limits": {"memory": "1Gi"}}, "memcached": {"resources": {"limits": {"memory": "1378Mi"}}}}`,
		standardValues(1000).text())
	got := pointValues(point)
	assert.Equal(t, append(testbed.StatisticsArgs(), point.Flags(experiment.MiddlewareFlags)...), got["extraArgs"])
	assert.Equal(t, tree{
		"workers": 64, "depth": 1, "replicas": "all", "sharded": true, "pool": "shared",
		"hot-keys": "detect", "log-level": "warn", "max-connection-age": "0s",
	}, got["config"])
	memcached := got["memcached"].(tree)
	assert.Equal(t, 3, memcached["replicas"])
	assert.Equal(t, 1000, memcached["memoryMiB"])
	assert.Equal(t, []string{"-o", "modern"}, memcached["extraArgs"])
}

func TestPodsAreInTheOrderOfTheirNumbers(t *testing.T) {
	pods, err := readPods([]byte(`{"items": [
		{"metadata": {"name": "load-10"}, "status": {"podIP": "10.0.0.10"}},
		{"metadata": {"name": "load-9"}, "status": {"podIP": "10.0.0.9"}},
		{"metadata": {"name": "mcmw-b"}, "status": {"podIP": "10.0.0.2"}},
		{"metadata": {"name": "mcmw-a"}, "status": {"podIP": "10.0.0.1"}}]}`))
	require.NoError(t, err)
	var names []string
	for _, p := range pods {
		names = append(names, p.Metadata.Name)
	}
	assert.Equal(t, []string{"mcmw-a", "mcmw-b", "load-9", "load-10"}, names)
	_, err = readPods([]byte(`{"items": [{"metadata": {"name": "load-0"}}]}`))
	require.EqualError(t, err, "the pod load-0 has no address")
	_, err = readPods([]byte(`[`))
	require.ErrorContains(t, err, "reading the list of pods: ")
}

func TestTheImagesOfTheChartAreRead(t *testing.T) {
	images,
		err := readImages([]byte("---\nkind: Service\nspec: {ports: [1]}\n---\nspec: {template: {spec: {containers: " +
		"[{name: mcmw, image: a:1}, {name: sidecar, image: b:2}]}}}\n"))
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"mcmw": "image a:1"}, images)
	_, err = readImages([]byte("\t"))
	require.ErrorContains(t, err, "reading the chart's manifest: ")
}

// FuzzCluster reads any text that the programs can write about a cluster.
func FuzzCluster(f *testing.F) {
	f.Add([]byte(`{"items": [{"metadata": {"name": "load-0"}, "status": {"podIP": "10.0.0.1"}}]}`))
	f.Add([]byte("kind: a\n---\nspec: {template: {spec: {containers: [{name: mcmw, image: a}]}}}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if pods, err := readPods(text); err == nil {
			for _, p := range pods {
				require.NotEmpty(t, p.Status.PodIP)
			}
		}
		_, _ = readImages(text)
	})
}
