package chart

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
)

func TestTheNotesNameTheObjectsOfTheRelease(t *testing.T) {
	h := helms["v4"]
	for set, args := range sets(t, chartDir) {
		t.Run(set, func(t *testing.T) {
			o := render(t, h, args...)
			notes := notes(t, chartDir, args...)
			owner, _ := o.proxy(t)
			require.Contains(t, notes, "rollout status "+strings.ToLower(owner.kind)+"/"+owner.owner.GetName()+"\n")
			service := named[*corev1.Service](t, o, owner.owner.GetName())
			require.Contains(t, notes, "serves clients at "+service.Name+"."+namespace+".svc.")
		})
	}
}

func TestTheNotesSayWhereTheKeysAreAndWhenConnectionsEnd(t *testing.T) {
	const ends = "closed between two requests at a random age from half of"
	for set, want := range map[string]string{
		"memcached.replicas=4": ", in front of 4 memcached servers of " +
			"this release.\n",
		"memcached.enabled=false,servers={a,b}":                         ", in front of a, b.\n",
		"memcached.enabled=false,servers={a},memcached.pools[0].name=b": ", in front of a.\n",
		"memcached.enabled=false,config.pools.b.servers={x},config.pools.a.servers={y}": ", in front of the pools a, " +
			"b.\n",
		"memcached.pools[0].name=a,memcached.pools[1].name=b,memcached.pools[1].replicas=1": ", in front of the " +
			"pools " +
			"a (3 memcached), b (1 memcached) of this release.\n",
		"config.max-connection-age=3m": ends + " 3m to 3m",
	} {
		notes := notes(t, chartDir, "--set", set)
		require.Contains(t, notes, want)
		require.Contains(t, notes, ends)
	}
	require.NotContains(t, notes(t, chartDir, "--set", "config.max-connection-age=0s"), ends)
}

func TestTheNotesSayThatARestartedServerIsRefilledWhereItIs(t *testing.T) {
	for set, refilled := range map[string]bool{
		"replicas=1": true, "config.refill-rate=10": true, "config.refill-rate=0": false, "config.replicas=1": false,
		"memcached.watch=false": false, "memcached.enabled=false,servers={a,b}": false,
	} {
		notes := notes(t, chartDir, "--set", set)
		require.Equal(t, refilled, strings.Contains(notes, "is ready once mcmw has copied to it"), set)
	}
}

func TestTheMetricsForScalingExist(t *testing.T) {
	documented, err := os.ReadFile("../../docs/observability.md")
	require.NoError(t, err)
	var text string
	for _, h := range of[*autoscalingv2.HorizontalPodAutoscaler](render(t, helms["v4"], "--values",
		"testdata/everything.yaml")) {
		for _, m := range h.Spec.Metrics {
			if m.Pods != nil {
				text += m.Pods.Metric.Name + " "
			}
		}
	}
	for _, s := range of[*scaledObject](render(t, helms["v4"], "--values", "testdata/keda.yaml")) {
		text += s.Spec.Triggers[0].Metadata["query"]
	}
	names := regexp.MustCompile(`mcmw_[a-z_]+`).FindAllString(text, -1)
	require.Subset(t, names, []string{"mcmw_queue_requests", "mcmw_sampled_queue_requests_total", "mcmw_samples_total"})
	for _, name := range names {
		require.Contains(t, string(documented), "| `"+name+"` |")
	}
}
