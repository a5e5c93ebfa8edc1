package chart

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
)

func TestANullRemovesWhatAnEarlierValuesFileHasSet(t *testing.T) {
	dir := t.TempDir()
	files := []string{
		"nodeSelector: {pool: a, disk: ssd}\nmemcached: {nodeSelector: {pool: b}, podAnnotations: {a: " +
			"b}}\nresources: {limits: {cpu: 2}}\ncommonLabels: {team: x}\n",
		"nodeSelector: {pool: null}\nmemcached: {nodeSelector: {pool: null}, podAnnotations: {a: null}}\nresources: " +
			"{limits: {cpu: null}}\ncommonLabels: {team: null}\n",
	}
	var args []string
	for i, text := range files {
		path := filepath.Join(dir, string(rune('a'+i))+".yaml")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		args = append(args, "--values", path)
	}
	eachHelm(t, "", func(t *testing.T, h *helm) {
		o := render(t, h, args...)
		p, c := o.proxy(t)
		require.Equal(t, map[string]string{"disk": "ssd"}, p.spec.NodeSelector)
		require.Equal(t, []corev1.ResourceName{"memory"}, names(c.Resources.Limits))
		servers := named[*appsv1.StatefulSet](t, o, "mcmw-memcached").Spec.Template
		require.Empty(t, servers.Spec.NodeSelector)
		require.Empty(t, servers.Annotations)
		for _, p := range o.pods() {
			require.NotContains(t, p.meta.Labels, "team")
			require.NotContains(t, p.owner.GetLabels(), "team")
		}
	})
}

func names(list corev1.ResourceList) (all []corev1.ResourceName) {
	for name := range list {
		all = append(all, name)
	}
	return all
}

func TestTheGlobalRegistryPrefixesEveryImage(t *testing.T) {
	for dir := range valuesOf {
		for set, args := range sets(t, dir) {
			eachHelm(t, set, func(t *testing.T, h *helm) {
				before := renderDir(t, h, dir, args...).pods()
				after := renderDir(t, h, dir,
					append(args, "--set", "global.imageRegistry=mirror.example.com/all/")...).pods()
				require.Len(t, after, len(before))
				for i, p := range after {
					// The chart's own container is the first one; others are the user's.
					require.Equal(t, "mirror.example.com/all/"+before[i].spec.Containers[0].Image,
						p.spec.Containers[0].Image)
				}
			})
		}
	}
}

func TestPodsGetTheUsersOwnFields(t *testing.T) {
	values := filepath.Join(t.TempDir(), "values.yaml")
	const pod = `
  schedulerName: own
  hostAliases: [{ip: 10.0.0.1, hostnames: [cache]}]
  initContainers: [{name: wait, image: busybox}]
  extraEnv: [{name: A, value: b}]
  extraVolumes: [{name: more, emptyDir: {}}]
  extraVolumeMounts: [{name: more, mountPath: /more}]
`
	text := "memcached:" + pod + "  updateStrategy: {type: OnDelete}\n" +
		strings.ReplaceAll(pod, "\n  ", "\n")
	require.NoError(t, os.WriteFile(values, []byte(text), 0o644))
	eachHelm(t, "", func(t *testing.T, h *helm) {
		o := render(t, h, "--values", values)
		p, _ := o.proxy(t)
		servers := named[*appsv1.StatefulSet](t, o, "mcmw-memcached").Spec
		require.Equal(t, appsv1.OnDeleteStatefulSetStrategyType, servers.UpdateStrategy.Type)
		for _, spec := range []corev1.PodSpec{p.spec, servers.Template.Spec} {
			require.Equal(t, "own", spec.SchedulerName)
			require.Equal(t, []corev1.HostAlias{{IP: "10.0.0.1", Hostnames: []string{"cache"}}}, spec.HostAliases)
			require.Equal(t, "wait", spec.InitContainers[0].Name)
			c := spec.Containers[0]
			require.Contains(t, c.Env, corev1.EnvVar{Name: "A", Value: "b"})
			require.Contains(t, c.VolumeMounts, corev1.VolumeMount{Name: "more", MountPath: "/more"})
			require.Equal(t, "more", spec.Volumes[len(spec.Volumes)-1].Name)
		}
	})
}

func TestConventionalNamesReplaceTheCharts(t *testing.T) {
	budget := func(o *objects, name string) policyv1.PodDisruptionBudgetSpec {
		return named[*policyv1.PodDisruptionBudget](t, o, name).Spec
	}
	eachHelm(t, "", func(t *testing.T, h *helm) {
		o := render(t, h)
		require.Equal(t, int32(2), *named[*appsv1.Deployment](t, o, "mcmw").Spec.Replicas)
		require.Equal(t, "1", budget(o, "mcmw").MaxUnavailable.String())
		p, _ := o.proxy(t)
		for _, c := range p.spec.TopologySpreadConstraints {
			require.Equal(t, []string{"pod-template-hash"}, c.MatchLabelKeys)
		}
		// A release of a chart without these values, with --reuse-values.
		require.Equal(t, int32(2), *named[*appsv1.Deployment](t, render(t, h, "--set", "replicaCount=null"),
			"mcmw").Spec.Replicas)

		o = render(t, h, "--set", "replicaCount=5", "--set", "podDisruptionBudget.minAvailable=60%", "--set",
			"memcached.podDisruptionBudget.minAvailable=2",
			"--set-json",
			`topologySpreadConstraints=[{"topologyKey": "rack", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]`)
		require.Equal(t, int32(5), *named[*appsv1.Deployment](t, o, "mcmw").Spec.Replicas)
		require.Equal(t, "60%", budget(o, "mcmw").MinAvailable.String())
		require.Nil(t, budget(o, "mcmw").MaxUnavailable)
		require.Equal(t, "2", budget(o, "mcmw-memcached").MinAvailable.String())
		p, _ = o.proxy(t)
		require.Len(t, p.spec.TopologySpreadConstraints, 1)
		require.Equal(t, "rack", p.spec.TopologySpreadConstraints[0].TopologyKey)
		require.Zero(t, *named[*appsv1.Deployment](t, render(t, h, "--set", "replicaCount=0"), "mcmw").
			Spec.Replicas)
	})
}
