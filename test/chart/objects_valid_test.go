package chart

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	psa "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

	"mcmw/internal/mctest"
)

func TestPodsAreWithinTheRestrictedPodSecurityStandard(t *testing.T) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks())
	require.NoError(t, err)
	restricted := psa.LevelVersion{Level: psa.LevelRestricted, Version: psa.MajorMinorVersion(1, 34)}
	forEachChart(t, func(t *testing.T, o *objects) {
		require.NotEmpty(t, o.pods())
		for _, p := range o.pods() {
			for _, result := range evaluator.EvaluatePod(restricted, &p.meta, &p.spec) {
				assert.True(t, result.Allowed, "%s/%s: %s: %s", p.kind, p.owner.GetName(), result.ForbiddenReason,
					result.ForbiddenDetail)
			}
			assert.NotNil(t, p.spec.AutomountServiceAccountToken)
			assert.Equal(t, len(of[*rbacv1.Role](o)) > 0 && p.meta.Labels["app.kubernetes.io/component"] == "proxy",
				*p.spec.AutomountServiceAccountToken,
				"%s/%s: a token where there is something that it allows, and nowhere else", p.kind, p.owner.GetName())
			for _, c := range p.spec.Containers {
				if c.Name != "tail" { // the container that a test adds
					assert.True(t, *c.SecurityContext.ReadOnlyRootFilesystem, "%s/%s", p.owner.GetName(), c.Name)
				}
			}
		}
	})
}

// twice returns the keys that occur more than once.
func twice(keys ...string) (found []string) {
	seen := map[string]bool{}
	for _, key := range keys {
		if seen[key] {
			found = append(found, key)
		}
		seen[key] = true
	}
	return found
}

// keysOf returns the key of every element.
func keysOf[T any](all []T, key func(T) string) []string {
	var keys []string
	for _, element := range all {
		keys = append(keys, key(element))
	}
	return keys
}

func TestNamesAreUnique(t *testing.T) {
	forEachChart(t, func(t *testing.T, o *objects) {
		var names []string
		for _, object := range o.all {
			meta := object.(metav1.Object)
			names = append(names, fmt.Sprintf("%s %s/%s", object.GetObjectKind().GroupVersionKind(),
				meta.GetNamespace(), meta.GetName()))
			assert.LessOrEqual(t, len(meta.GetName()), validation.DNS1035LabelMaxLength, meta.GetName())
		}
		assert.Empty(t, twice(names...), "objects")
		for _, p := range o.pods() {
			name := p.owner.GetName()
			assert.Empty(t, twice(keysOf(p.spec.Volumes, func(v corev1.Volume) string { return v.Name })...),
				"%s: volumes", name)
			assert.Empty(t, twice(keysOf(p.spec.Containers, func(c corev1.Container) string { return c.Name })...),
				"%s: containers", name)
			assert.Empty(t, twice(keysOf(p.spec.TopologySpreadConstraints,
				func(c corev1.TopologySpreadConstraint) string {
					return c.TopologyKey + string(c.WhenUnsatisfiable)
				})...), "%s: topology", name)
			for _, c := range p.spec.Containers {
				assert.Empty(t, twice(keysOf(c.Env, func(e corev1.EnvVar) string { return e.Name })...),
					"%s: env", name)
				assert.Empty(t, twice(keysOf(c.Ports, func(p corev1.ContainerPort) string { return p.Name })...),
					"%s: port names", name)
				assert.Empty(t, twice(keysOf(c.Ports, func(p corev1.ContainerPort) string {
					return strconv.Itoa(int(p.ContainerPort))
				})...), "%s: ports", name)
				assert.Empty(t, twice(keysOf(c.VolumeMounts, func(m corev1.VolumeMount) string {
					return m.MountPath
				})...), "%s: mounts", name)
				assert.Empty(t, twice(c.Args...), "%s: args", name)
			}
		}
		for _, s := range of[*corev1.Service](o) {
			assert.Empty(t, twice(keysOf(s.Spec.Ports, func(p corev1.ServicePort) string { return p.Name })...), s.Name)
			assert.Empty(t, twice(keysOf(s.Spec.Ports, func(p corev1.ServicePort) string {
				return strconv.Itoa(int(p.Port))
			})...), s.Name)
		}
	})
}

func TestEveryMountHasItsVolumeAndEveryImageAnExactVersion(t *testing.T) {
	forEachChart(t, func(t *testing.T, o *objects) {
		for _, p := range o.pods() {
			volumes := keysOf(p.spec.Volumes, func(v corev1.Volume) string { return v.Name })
			for _, v := range p.spec.Volumes {
				if v.Secret != nil {
					assert.EqualValues(t, 0o440, *v.Secret.DefaultMode, "%s: who reads it is the pod's group", v.Name)
				}
			}
			for _, c := range p.spec.Containers {
				for _, m := range c.VolumeMounts {
					assert.Contains(t, volumes, m.Name, p.owner.GetName())
					assert.Empty(t, m.SubPath, "a single mounted file is never updated")
				}
				_, tag, _ := strings.Cut(c.Image[strings.LastIndex(c.Image, "/")+1:], ":")
				assert.Regexp(t, `[0-9]+\.[0-9]+\.[0-9]+$|^[0-9a-f]{64}$`, tag, c.Image)
			}
		}
	})
}

// portNames returns the names of the ports of the pods that a selector finds.
func portNames(o *objects, selector map[string]string) (names []string) {
	for _, p := range o.pods() {
		if labels.SelectorFromSet(selector).Matches(labels.Set(p.meta.Labels)) {
			for _, c := range p.spec.Containers {
				names = append(names, keysOf(c.Ports, func(p corev1.ContainerPort) string { return p.Name })...)
			}
		}
	}
	return names
}

func TestEverySelectorFindsThePodsOfOneOwnerAndTheirPorts(t *testing.T) {
	forEachChart(t, func(t *testing.T, o *objects) {
		one := func(selector *metav1.LabelSelector, what string) {
			assert.Len(t, o.selected(t, selector), 1, what)
		}
		for _, p := range o.pods() {
			if p.selector != nil {
				assert.Equal(t, []string{p.kind + "/" + p.owner.GetName()}, o.selected(t, p.selector))
			}
			for _, c := range p.spec.TopologySpreadConstraints {
				assert.Contains(t, o.selected(t, c.LabelSelector), p.kind+"/"+p.owner.GetName(),
					"a topology spread constraint does not select its own pods")
			}
		}
		for _, s := range of[*corev1.Service](o) {
			one(&metav1.LabelSelector{MatchLabels: s.Spec.Selector}, s.Name)
			for _, port := range s.Spec.Ports {
				assert.Contains(t, portNames(o, s.Spec.Selector), port.TargetPort.StrVal, s.Name)
			}
		}
		for _, b := range of[*policyv1.PodDisruptionBudget](o) {
			one(b.Spec.Selector, b.Name)
		}
		for _, n := range of[*networkingv1.NetworkPolicy](o) {
			one(&n.Spec.PodSelector, n.Name)
		}
		for _, s := range of[*appsv1.StatefulSet](o) {
			assert.LessOrEqual(t, len(s.Name), 52, "its pods have a label with this name and a hash")
			service := named[*corev1.Service](t, o, s.Spec.ServiceName)
			assert.Equal(t, corev1.ClusterIPNone, service.Spec.ClusterIP)
		}
		targets := map[string]string{}
		for _, h := range of[*autoscalingv2.HorizontalPodAutoscaler](o) {
			targets[h.Name] = h.Spec.ScaleTargetRef.Name
		}
		for _, s := range of[*scaledObject](o) {
			targets[s.Name] = s.Spec.ScaleTargetRef.Name
			assert.NotEmpty(t, s.Spec.Triggers)
		}
		for _, target := range targets {
			deployment := named[*appsv1.Deployment](t, o, target)
			assert.Nil(t, deployment.Spec.Replicas, "an upgrade would undo the autoscaler's scaling")
		}
	})
}

func TestTheTargetsForPrometheusExist(t *testing.T) {
	h := helms["v4"]
	o := render(t, h, "--values", "testdata/everything.yaml")
	monitor := of[*monitoringv1.ServiceMonitor](o)[0]
	require.Equal(t, "monitoring", monitor.Namespace)
	require.Equal(t, "prometheus", monitor.Labels["release"])
	require.Equal(t, []string{namespace}, monitor.Spec.NamespaceSelector.MatchNames)
	selector, err := metav1.LabelSelectorAsSelector(&monitor.Spec.Selector)
	require.NoError(t, err)
	var found []string
	for _, s := range of[*corev1.Service](o) {
		if selector.Matches(labels.Set(s.Labels)) {
			found = append(found, s.Name)
			require.True(t, s.Spec.PublishNotReadyAddresses, "draining pods are scraped, too")
			require.Equal(t, monitor.Spec.Endpoints[0].Port, s.Spec.Ports[0].Name)
		}
	}
	require.Equal(t, []string{"mcmw-proxy-metrics"}, found)

	o = render(t, h, "--values", "testdata/daemonset.yaml")
	pods := of[*monitoringv1.PodMonitor](o)[0]
	require.Equal(t, []string{"DaemonSet/mcmw"}, o.selected(t, &pods.Spec.Selector))
	require.Contains(t, portNames(o, pods.Spec.Selector.MatchLabels), *pods.Spec.PodMetricsEndpoints[0].Port)
}

func TestTheSocketOfADaemonSetIsInTheNodesDirectory(t *testing.T) {
	o := render(t, helms["v4"], "--values", "testdata/daemonset.yaml", "--set",
		"socketDirectory=/run/caches,updateStrategy.maxSurge=0,updateStrategy.maxUnavailable=1")
	pod := of[*appsv1.DaemonSet](o)[0].Spec.Template.Spec
	mounts := pod.Containers[0].VolumeMounts
	require.Contains(t, mounts, corev1.VolumeMount{Name: "socket", MountPath: "/run/mcmw"})
	require.Equal(t, "/run/caches", pod.Volumes[len(pod.Volumes)-1].HostPath.Path)
	for name, value := range map[string]string{
		"MCMW_LISTEN": ":11311,unix:/run/mcmw/mcmw.sock", "MCMW_UNIX_MASK": "0777",
	} {
		require.Contains(t, pod.Containers[0].Env, corev1.EnvVar{Name: name, Value: value})
	}
}

func TestHelm3AndHelm4RenderTheSame(t *testing.T) {
	if !mctest.Long() {
		t.Skip("needs a second Helm; MCMW_LONG=1 runs it")
	}
	for dir := range valuesOf {
		for set, args := range sets(t, dir) {
			t.Run(set, func(t *testing.T) {
				three, four := renderDir(t, helms["v3"], dir, args...), renderDir(t, helms["v4"], dir, args...)
				require.ElementsMatch(t, three.all, four.all)
			})
		}
	}
}

func TestHelmLintHasNoComplaints(t *testing.T) {
	for dir := range valuesOf {
		for set, args := range sets(t, dir) {
			for version, h := range helms {
				t.Run(set+"/"+version, func(t *testing.T) {
					stdout, stderr, err := h.run(t,
						append([]string{"lint", "--strict", "--quiet", dir, "--kube-version", kubeVersion}, args...)...)
					require.NoError(t, err, "%s%s", stdout, stderr)
				})
			}
		}
	}
}
