package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// labProgram builds mcmwlab and returns its path.
func labProgram(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "mcmwlab")
	build := exec.Command("go", "build", "-o", path, "./cmd/mcmwlab")
	build.Dir, build.Env = filepath.Join(root, "lab"), append(os.Environ(), "GOWORK=off")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return path
}

// reads are the arguments that run the experiment of the documentation on the cluster, from any directory.
func reads(t *testing.T, dir string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "lab/experiments/cluster-reads.yaml"))
	require.NoError(t, err)
	const testbed = "testbed: kubernetes\n"
	require.Contains(t, string(text), testbed)
	path := filepath.Join(t.TempDir(), "reads.yaml")
	here := fmt.Sprintf("testbed: {kind: kubernetes, chart: %s}\n", chart())
	require.NoError(t, os.WriteFile(path, []byte(strings.Replace(string(text), testbed, here, 1)), 0o644))
	values := "testbed.values=[" + filepath.Join(root, "test/cluster/values.yaml") + "]"
	return []string{"run", path, "--set", values, "--out", dir}
}

// labNamespaces returns the namespaces that labs have created.
func labNamespaces(t *testing.T) string {
	t.Helper()
	out, err := output(context.Background(), nil, "kubectl", "get", "namespaces", "--selector",
		"app.kubernetes.io/managed-by=mcmwlab", "--output", "name")
	require.NoError(t, err)
	return strings.TrimSpace(out)
}

func TestAnExperimentRunsThroughTheChartAndItsNamespaceIsGone(t *testing.T) {
	needCluster(t)
	program, dir := labProgram(t), filepath.Join(t.TempDir(), "record")
	out, err := output(t.Context(), nil, program, reads(t, dir)...)
	require.NoError(t, err)
	assert.Contains(t, out, dir+": 2 runs complete\n")
	assert.FileExists(t, filepath.Join(dir, "report", "index.html"))
	assert.Empty(t, labNamespaces(t))

	var made struct {
		Testbed  string
		Versions map[string]string
	}
	text, err := os.ReadFile(filepath.Join(dir, "manifest.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &made))
	assert.Equal(t, "kubernetes", made.Testbed)
	assert.Equal(t, "image mcmw:dev", made.Versions["mcmw"])
	exported := filepath.Join(t.TempDir(), "export")
	out, err = output(t.Context(), nil, program, "show", dir, "--export", "json", "--out", exported)
	require.NoError(t, err, out)
	var results []struct {
		Run            int
		Source, Metric string
		Value          float64
	}
	text, err = os.ReadFile(filepath.Join(exported, "results.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &results))
	of := map[int]map[string]float64{} // by run, then by source and metric
	for _, r := range results {
		if of[r.Run] == nil {
			of[r.Run] = map[string]float64{}
		}
		of[r.Run][r.Source+" "+r.Metric] = r.Value
	}
	require.Len(t, of, 2)
	for id, run := range of {
		for _, metric := range []string{
			"client throughput", "client:1 throughput", "client response_time_p99", "middleware throughput",
			"middleware stage_server_mean",
			"middleware seconds_cpu", "server:point-mcmw-memcached-0 service_time_mean",
		} {
			assert.Positive(t, run[metric], "%s of run %d", metric, id)
		}
		assert.Zero(t, run["client misses"], "the keys were stored first")
		assert.InEpsilon(t, run["client throughput"], run["middleware throughput"], 0.1,
			"both sides must count the same requests")
	}
	var warnings []struct{ Code, Message string }
	text, err = os.ReadFile(filepath.Join(exported, "warnings.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &warnings))
	// Here one machine runs everything, so a load is not steady, its two processes don't start together, and requests
	// wait for a processor outside the middleware. These warnings are accepted; contradictory numbers are not.
	expected := []string{
		"not_stationary", "window_variation", "generator_saturated", "too_few_repetitions", "flow_client_middleware",
		"interactive_law_middleware",
	}
	for _, w := range warnings {
		t.Logf("%s: %s", w.Code, w.Message)
		assert.Contains(t, expected, w.Code, w.Message)
	}
}

func TestTheRestsOfAKilledLabOnTheClusterAreCleanedUp(t *testing.T) {
	needCluster(t)
	program := labProgram(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd, err := cluster.Command(ctx, program, reads(t, filepath.Join(t.TempDir(), "record"))...)
	require.NoError(t, err)
	var progress bytes.Buffer
	cmd.Stderr = &progress
	require.NoError(t, cmd.Start())
	ended := make(chan error, 1) // gets one
	go func() { ended <- cmd.Wait() }()
	eventually(t, "the load pods are asked for", func() error {
		if out, err := output(ctx, nil, "kubectl", "get", "statefulsets", "--all-namespaces", "--selector",
			"app.kubernetes.io/instance=load", "--output", "name"); err != nil || out == "" {
			return fmt.Errorf("none: %w", err)
		}
		return nil
	})
	_, err = output(ctx, nil, program, "cleanup", "--kubernetes")
	require.NoError(t, err)
	require.NotEmpty(t, labNamespaces(t), "the namespace of a running lab must stay")
	require.NoError(t, syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL))
	select {
	case <-ended:
	case <-time.After(patience):
		require.FailNow(t, "the lab doesn't end")
	}
	out, err := output(ctx, nil, program, "cleanup", "--kubernetes")
	require.NoError(t, err)
	assert.Contains(t, out, "removed the Kubernetes namespace mcmwlab-")
	assert.Empty(t, labNamespaces(t))
}
