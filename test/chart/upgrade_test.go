package chart

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// laterChart returns a copy of the chart with another version.
func laterChart(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "mcmw")
	require.NoError(t, os.CopyFS(dir, os.DirFS(chartDir)))
	path := filepath.Join(dir, "Chart.yaml")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	later := strings.Replace(string(text), "\nversion: ", "\nversion: 1", 1)
	require.NotEqual(t, string(text), later)
	require.NoError(t, os.WriteFile(path, []byte(later), 0o600))
	return dir
}

func TestAnUpgradeKeepsImmutableFields(t *testing.T) {
	eachHelm(t, "", func(t *testing.T, h *helm) {
		before := render(t, h)
		after := renderDir(t, h, laterChart(t), "--set",
			"replicas=7,image.tag=9.9.9,commonLabels.new=label,podLabels.other=label,"+
				"podAnnotations.a=b,config.workers=3,config.max-value=2m,memcached.image.tag=1.6.38,"+
				"memcached.podLabels.x=y,service.labels.x=y")
		d := named[*appsv1.Deployment](t, after, "mcmw")
		require.NotEqual(t, named[*appsv1.Deployment](t, before, "mcmw").Spec, d.Spec)
		require.Equal(t, named[*appsv1.Deployment](t, before, "mcmw").Spec.Selector, d.Spec.Selector)
		requireUpgradable(t, before, after, "mcmw-memcached")
		for _, name := range []string{"mcmw", "mcmw-memcached", "mcmw-metrics"} {
			require.Equal(t, named[*corev1.Service](t, before, name).Spec.Selector,
				named[*corev1.Service](t, after, name).Spec.Selector)
		}
	})
}

func TestAnUpgradeOfAPodThatMustWriteAloneEndsItFirst(t *testing.T) {
	for strategy, sets := range map[appsv1.DeploymentStrategyType][]string{
		appsv1.RollingUpdateDeploymentStrategyType: {
			"replicas=1", "config.writers=one,config.replicas=1", "memcached.enabled=false,servers={x,y}",
		},
		appsv1.RecreateDeploymentStrategyType: {
			"replicas=1,config.writers=one", "replicas=1,memcached.image.tag=1.6.18",
			"replicas=1,memcached.enabled=false,servers={x,y},config.writers=one",
			"replicas=1,memcached.pools[0].name=a,memcached.pools[1].name=b,config.pools.b.writers=one",
			"replicas=1,memcached.enabled=false,config.pools.a.servers={x,y},config.pools.a.writers=one",
		},
	} {
		for _, set := range sets {
			got := named[*appsv1.Deployment](t, render(t, helms["v4"], "--set", set), "mcmw").Spec.Strategy
			require.Equal(t, strategy, got.Type, set)
			require.Equal(t, strategy == appsv1.RecreateDeploymentStrategyType, got.RollingUpdate == nil, set)
		}
	}
}

// requireUpgradable checks that a StatefulSet changes, but only in the fields that the API server allows to change.
func requireUpgradable(t *testing.T, before, after *objects, name string) {
	t.Helper()
	is, was := named[*appsv1.StatefulSet](t, after, name).Spec, named[*appsv1.StatefulSet](t, before, name).Spec
	require.NotEqual(t, was.Template, is.Template)
	is.Replicas, is.Template, is.UpdateStrategy, is.MinReadySeconds, is.RevisionHistoryLimit = was.Replicas,
		was.Template, was.UpdateStrategy, was.MinReadySeconds, was.RevisionHistoryLimit
	require.Equal(t, was, is)
}

func TestAnUpgradeToSeveralPoolsKeepsTheServersAndTheirNames(t *testing.T) {
	eachHelm(t, "", func(t *testing.T, h *helm) {
		before := render(t, h, "--set", "memcached.image.tag=1.6.38")
		after := render(t, h, "--set", "memcached.pools[0].name=memcached,memcached.pools[1].name=spare,"+
			"config.pools.memcached.gutter=spare")
		requireUpgradable(t, before, after, "mcmw-memcached")
		require.Equal(t, named[*corev1.Service](t, before, "mcmw-memcached"),
			named[*corev1.Service](t, after, "mcmw-memcached"))
	})
}

func TestANewVersionOfTheChartAloneReplacesNoPod(t *testing.T) {
	before, after := render(t, helms["v4"]), renderDir(t, helms["v4"], laterChart(t))
	is, _ := after.proxy(t)
	was, _ := before.proxy(t)
	require.Equal(t, was.meta, is.meta)
	require.Equal(t, was.spec, is.spec)
	require.NotEqual(t, was.owner.GetLabels(), is.owner.GetLabels())
}

func TestAnOptionChangesTheWatchedFileOrThePods(t *testing.T) {
	file := func(o *objects) string { return named[*corev1.ConfigMap](t, o, "mcmw").Data["mcmw.yaml"] }
	before := render(t, helms["v4"])
	was, _ := before.proxy(t)
	for _, tc := range []struct {
		set        string
		file, pods bool
	}{
		{"config.workers=7", true, false},
		{"drain.timeoutSeconds=3", false, true}, // because of the grace period of the pod
		{"config.queue-full=shed", false, true},
		{"onConfigChange=restart,config.workers=7", true, true},
		{"service.annotations.a=b", false, false},
	} {
		t.Run(tc.set, func(t *testing.T) {
			after := render(t, helms["v4"], "--set", tc.set)
			is, _ := after.proxy(t)
			require.Equal(t, tc.file, file(before) != file(after))
			equal := was.meta.String() == is.meta.String() && was.spec.String() == is.spec.String()
			require.Equal(t, tc.pods, !equal)
		})
	}
}

func TestAChangedJobHasAnotherName(t *testing.T) {
	names := map[string]bool{}
	for _, set := range []string{"jobs[0].args={a}", "jobs[0].args={b}", "jobs[0].parallelism=2", "image.tag=2.0.1"} {
		o := renderDir(t, helms["v4"], loadDir, "--set", "jobs[0].name=run", "--set", set)
		for _, p := range o.pods() {
			if p.meta.Labels["app.kubernetes.io/component"] == "loadjob" {
				names[p.owner.GetName()] = true
			}
		}
	}
	require.Len(t, names, 4)
}
