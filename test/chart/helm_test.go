package chart

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
)

const (
	chartDir  = "../../deploy/helm/mcmw"
	loadDir   = chartDir + "-load"
	release   = "mcmw"
	namespace = "cache"
	// kubeVersion is the version of Kubernetes for which charts are rendered, and of the types in go.mod.
	kubeVersion = "1.34.0"
	helmTimeout = time.Minute
)

// helms are the Helm programs by major version: the newest, and in the long form also the previous one.
var helms = func() map[string]*helm {
	all := map[string]*helm{"v4": {path: "helm.sh/helm/v4/cmd/helm", rendered: map[string]string{}}}
	if mctest.Long() {
		all["v3"] = &helm{path: "helm.sh/helm/v3/cmd/helm", rendered: map[string]string{}}
	}
	return all
}()

// helm is a Helm program.
type helm struct {
	path string // of its package

	build  sync.Once // of the fields below
	binary string
	err    error

	rendered map[string]string // the rendered text by arguments; tests run one after the other
}

// program returns the path of the program. It is built once for each list of requirements, which takes minutes, and
// kept in the user's cache directory.
func (h *helm) program(t *testing.T) string {
	t.Helper()
	h.build.Do(func() {
		var cache string
		if cache, h.err = os.UserCacheDir(); h.err != nil {
			return
		}
		var requirements []byte
		if requirements, h.err = os.ReadFile("helm/go.sum"); h.err != nil {
			return
		}
		name := fmt.Sprintf("%s-%x", strings.ReplaceAll(h.path, "/", "-"), sha256.Sum256(requirements))
		h.binary = filepath.Join(cache, "mcmw", "chart", name)
		if _, err := os.Stat(h.binary); err == nil {
			return
		}
		cmd := exec.Command("go", "-C", "helm", "build", "-o", h.binary+".new", h.path)
		if out, err := cmd.CombinedOutput(); err != nil {
			h.err = fmt.Errorf("%s: %w\n%s", cmd, err, out)
			return
		}
		h.err = os.Rename(h.binary+".new", h.binary)
	})
	require.NoError(t, h.err)
	return h.binary
}

// run runs the program without any settings of the user.
func (h *helm) run(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	program := h.program(t)
	ctx, cancel := context.WithTimeout(t.Context(), helmTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	home := t.TempDir()
	cmd.Env = append(os.Environ(), "HOME="+home, "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home,
		"HELM_DATA_HOME="+home, "KUBECONFIG="+filepath.Join(home, "none"))
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}

// template renders the chart in directory dir with further arguments, such as --values and --set.
func (h *helm) template(t *testing.T, dir string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	return h.run(t, append([]string{"template", release, dir, "--namespace", namespace, "--kube-version", kubeVersion},
		args...)...)
}

// render returns the objects of the chart.
func render(t *testing.T, h *helm, args ...string) *objects {
	t.Helper()
	return renderDir(t, h, chartDir, args...)
}

func renderDir(t *testing.T, h *helm, dir string, args ...string) *objects {
	t.Helper()
	key := strings.Join(append([]string{dir}, args...), "\n")
	if _, ok := h.rendered[key]; !ok {
		stdout, stderr, err := h.template(t, dir, args...)
		require.NoError(t, err, stderr)
		require.Empty(t, stderr)
		h.rendered[key] = stdout
	}
	return decode(t, h.rendered[key])
}

// refused returns Helm's error message about values of the chart in directory dir.
func refused(t *testing.T, h *helm, dir string, args ...string) string {
	t.Helper()
	stdout, stderr, err := h.template(t, dir, args...)
	require.Error(t, err, "accepted: %s", args)
	require.Empty(t, stdout)
	return stderr
}

// eachHelm runs a test with each Helm, as a subtest of that name and the version.
func eachHelm(t *testing.T, name string, test func(t *testing.T, h *helm)) {
	t.Helper()
	for version, h := range helms {
		t.Run(strings.TrimPrefix(name+"/"+version, "/"), func(t *testing.T) { test(t, h) })
	}
}

// valuesOf returns the patterns of the files with values of a chart, by its directory.
var valuesOf = map[string][]string{
	chartDir: {chartDir + "/values-*.yaml", loadDir + "/mcmw-*.yaml", "testdata/*.yaml"},
	loadDir:  {loadDir + "/values-*.yaml", "testdata/load/*.yaml"},
}

// sets returns the sets of values with which a chart must work: name -> arguments of Helm.
func sets(t *testing.T, dir string) map[string][]string {
	t.Helper()
	all := map[string][]string{filepath.Base(dir): nil}
	for _, pattern := range valuesOf[dir] {
		paths, err := filepath.Glob(pattern)
		require.NoError(t, err)
		require.NotEmpty(t, paths, pattern)
		for _, path := range paths {
			name := filepath.Base(dir) + "/" + strings.TrimSuffix(filepath.Base(path), ".yaml")
			all[name] = []string{"--values", path}
		}
	}
	return all
}

// forEach runs a test on the result of every Helm with every set of values of the chart mcmw.
func forEach(t *testing.T, test func(t *testing.T, o *objects)) {
	t.Helper()
	forEachOf(t, chartDir, test)
}

// forEachChart runs it with those of every chart.
func forEachChart(t *testing.T, test func(t *testing.T, o *objects)) {
	t.Helper()
	for dir := range valuesOf {
		forEachOf(t, dir, test)
	}
}

func forEachOf(t *testing.T, dir string, test func(t *testing.T, o *objects)) {
	t.Helper()
	for set, args := range sets(t, dir) {
		for version, h := range helms {
			t.Run(set+"/"+version, func(t *testing.T) { test(t, renderDir(t, h, dir, args...)) })
		}
	}
}
