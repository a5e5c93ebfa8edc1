package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestOnlyTheirShareOfKeysIsLostWithServersThatAreScaledAway(t *testing.T) {
	// Each key is on one server. A server is removed after three answers of the DNS without it.
	r := install(t, "scale", "--set", "config.replicas=1", "--set", "config.remove-after=3", "--set",
		"memcached.minReadySeconds=0,memcached.replicas=5")
	pods := ids(r.pods("proxy"))
	keys := []string{"--clients", "4", "--data-size", "32", "--key-minimum", "1", "--key-maximum", "2000"}
	// Many more random requests than keys, so that each key counts about equally often.
	missed := func() float64 {
		result := r.load(append(keys, "--ratio", "0:1", "--requests", "10000")...)
		return float64(result.Total.Misses) / float64(result.Total.Misses+result.Total.Hits)
	}
	r.load(append(keys, "--populate", "--ratio", "0:1", "--test-time", "1")...)
	require.Zero(t, missed())
	r.scaleMemcached(3)
	lost := missed()
	t.Logf("5 -> 3 servers: %.1f %% of the keys are lost, two fifths are 40 %%", 100*lost)
	assert.InDelta(t, 0.4, lost, 0.15, "the keys of two servers of five")
	assert.Equal(t, pods, ids(r.pods("proxy")), "the pods of mcmw must stay")
}

func TestANewServerIsFoundByTheWatchOrIfThatIsForbiddenByTheDNS(t *testing.T) {
	r := install(t, "watch", "--set", "config.resolve-interval=1h,config.change-step=1s")
	watches := func(live, broken string) {
		for _, p := range r.pods("proxy") {
			eventually(t, fmt.Sprintf("%s has %s watches, and %s that are broken", p.Metadata.Name, live, broken),
				func() error {
					samples, err := r.metrics(p.Metadata.Name)
					if err != nil {
						return err
					}
					if l, b := samples[`mcmw_server_watches{state="live"}`],
						samples[`mcmw_server_watches{state="broken"}`]; l != live || b != broken {
						return fmt.Errorf("it has %s and %s", l, b)
					}
					return nil
				})
		}
	}
	watches("1", "0")
	r.scaleMemcached(4) // long before the names are looked up again

	role := r.kubectl("get", "rolebinding/mcmw", "--output", "json")
	r.kubectl("delete", "rolebinding/mcmw")
	r.kubectl("rollout", "restart", "deployment/mcmw")
	r.kubectl("rollout", "status", "deployment/mcmw", "--timeout", "3m")
	eventually(t, "the pods from before are gone", func() error {
		if n := len(r.pods("proxy")); n != 2 {
			return fmt.Errorf("there are %d", n)
		}
		return nil
	})
	watches("0", "1")
	r.awaitServers(4)
	r.apply(role)
	watches("1", "0")
	r.scaleMemcached(5)
}

// scaleMemcached changes the number of servers, and waits until every pod of mcmw uses them.
func (r *release) scaleMemcached(n int) {
	r.t.Helper()
	r.kubectl("scale", "statefulset/mcmw-memcached", "--replicas", strconv.Itoa(n))
	r.kubectl("rollout", "status", "statefulset/mcmw-memcached", "--timeout", "3m")
	r.awaitServers(n)
}

// awaitServers waits until every pod of mcmw sees n servers up, and their keys have moved.
func (r *release) awaitServers(n int) {
	r.t.Helper()
	for _, p := range r.pods("proxy") {
		eventually(r.t, p.Metadata.Name+" has as many servers", func() error {
			samples, err := r.metrics(p.Metadata.Name)
			if err != nil {
				return err
			}
			up, settled := 0, false
			for name, value := range samples {
				settled = settled || strings.HasPrefix(name, `mcmw_placement_info{phase="settled"`)
				if strings.HasPrefix(name, "mcmw_server_state{") && strings.Contains(name, `state="up"`) &&
					value == "1" {
					up++
				}
			}
			if up != n || !settled {
				return fmt.Errorf("%d are up, not %d, or keys move", up, n)
			}
			return nil
		})
	}
}

func TestAutoscalingFollowsTheWaitingRequests(t *testing.T) {
	r := install(t, "autoscale",
		// One synchronous worker each, so that the rest of the load waits.
		"--set", "config.workers=1", "--set", "config.depth=1",
		"--set", "autoscaling.enabled=true", "--set", "autoscaling.minReplicas=1", "--set", "autoscaling.maxReplicas=3",
		"--set", "autoscaling.targetCPUUtilization=0", "--set", "autoscaling.queue.enabled=true", "--set-string",
		"autoscaling.queue.averageValue=10")
	// The adapter needs the names of pods, which the DNS does not have. Only the first pod is scraped, which has all of
	// the load at first; the autoscaler treats pods without a value as idle.
	first := r.pods("proxy")[0]
	r.startPrometheus(fmt.Sprintf("{job_name: mcmw-metrics, static_configs: [{targets: ['%s:9150'], labels: "+
		"{namespace: %s, pod: %s}}]}", first.Status.PodIP, r.namespace, first.Metadata.Name), 1)
	manifest, err := os.ReadFile("testdata/adapter.yaml")
	require.NoError(t, err)
	r.apply(strings.ReplaceAll(string(manifest), "NAMESPACE", r.namespace))
	t.Cleanup(func() {
		r.kubectl("delete", "apiservice", "v1beta1.custom.metrics.k8s.io")
		r.kubectl("delete", "clusterrolebinding,clusterrole", "--selector", "test=autoscale")
	})
	r.kubectl("rollout", "status", "deployment/prometheus-adapter", "--timeout", "2m")

	loaded := make(chan error, 1)
	go func() {
		_, err := r.tryKubectl("exec", "mcmw-load-0", "--", "/mcmwlab", "load", "--quiet", "--server", "mcmw",
			"--port", "11311",
			"--clients", "64", "--ratio", "0:1", "--data-size", "32", "--test-time", "40")
		loaded <- err
	}()
	eventually(t, "the autoscaler has made more pods", func() error {
		var hpa struct {
			Status struct {
				CurrentReplicas, DesiredReplicas int
				CurrentMetrics                   []struct {
					Pods struct {
						Current struct{ AverageValue string }
					}
				}
				Conditions []struct{ Type, Status, Message string }
			}
		}
		if err := json.Unmarshal([]byte(r.kubectl("get", "hpa", "mcmw", "--output", "json")), &hpa); err != nil {
			return err
		}
		if hpa.Status.CurrentReplicas < 2 || len(hpa.Status.CurrentMetrics) == 0 {
			return fmt.Errorf("%+v", hpa.Status)
		}
		t.Logf("%d pods; waiting requests per pod: %s, 10 are aimed at", hpa.Status.CurrentReplicas,
			hpa.Status.CurrentMetrics[0].Pods.Current.AverageValue)
		return nil
	})
	require.NoError(t, <-loaded, "no request of the load may fail while pods are added")
}

// zoneLabel is the label of a node, and of the pods on it, that names its zone.
const zoneLabel = "topology.kubernetes.io/zone"

func TestReadsGoToTheZoneOfTheNodeAndToOthersIfThatHasNoServer(t *testing.T) {
	r := prepare(t, "zones")
	// Kubernetes gives all endpoints the zone of the one node, so the test writes a slice for servers in other zones.
	r.kubectl("label", "node", "--all", zoneLabel+"=here")
	t.Cleanup(func() { r.kubectl("label", "node", "--all", zoneLabel+"-") })
	zones := []string{"here", "there", "yonder"}
	endpoints := make([]string, len(zones))
	for i, zone := range zones {
		name := "cache-" + zone
		r.kubectl("run", name, "--image", "docker.io/library/memcached:dev", "--image-pull-policy", "Never", "--",
			"memcached", "--memory-limit=64")
		r.kubectl("wait", "--for=condition=Ready", "pod/"+name, "--timeout", "2m")
		address := r.kubectl("get", "pod", name, "--output", "jsonpath={.status.podIP}")
		endpoints[i] = fmt.Sprintf("{addresses: [%s], hostname: %s, zone: %s, conditions: {ready: true}}", address,
			name, zone)
	}
	r.apply(fmt.Sprintf(`
{apiVersion: v1, kind: Service, metadata: {name: zoned}, spec: {clusterIP: None, ports: [{name: memcache, port: 11211}]}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: zoned, labels: {kubernetes.io/service-name: zoned}}
addressType: IPv4
ports: [{name: memcache, port: 11211, protocol: TCP}]
endpoints: [%s]
`, strings.Join(endpoints, ", ")))
	r.helm("install", "mcmw", chart(), "--values", root+"/test/cluster/values.yaml", "--wait", "--timeout", "3m",
		"--set", "memcached.enabled=false", "--set",
		fmt.Sprintf("servers={k8s+_memcache._tcp.zoned.%s.svc}", r.namespace),
		"--set", "config.read=nearest,config.replicas=all,config.writers=several")
	r.installLoad()
	r.awaitServers(len(zones))

	// reads sends gets of existing keys, and returns how many of them each zone's server answered. All servers get
	// equal numbers of mcmw's other requests.
	keys := []string{"--clients", "4", "--data-size", "32", "--key-minimum", "1", "--key-maximum", "500"}
	reads := func() map[string]float64 {
		before := r.asked(zones)
		result := r.load(append(keys, "--ratio", "0:1", "--requests", "2500")...)
		require.Equal(t, uint64(10_000), result.Total.Hits)
		after := r.asked(zones)
		for _, zone := range zones {
			after[zone] -= before[zone]
		}
		t.Logf("requests by zone: %v", after)
		return after
	}
	r.load(append(keys, "--populate", "--ratio", "0:1", "--test-time", "1")...)
	count := reads()
	require.Greater(t, count["here"], 9000., "equal gets of a round are sent once")
	require.Less(t, count["there"]+count["yonder"], 1000.)

	r.kubectl("delete", "pod", "cache-here", "--wait=true")
	reads() // pods that miss the server use another one
	count = reads()
	require.Greater(t, count["there"], 3000., "the servers of the other zones get about half each")
	require.Greater(t, count["yonder"], 3000.)
}

// asked returns the number of requests that each zone's server has answered for all pods of mcmw.
func (r *release) asked(zones []string) map[string]float64 {
	r.t.Helper()
	sums := make(map[string]float64)
	for _, p := range r.pods("proxy") {
		samples, err := r.metrics(p.Metadata.Name)
		require.NoError(r.t, err)
		for _, zone := range zones {
			n, err := strconv.ParseFloat(samples[fmt.Sprintf(`mcmw_server_duration_seconds_count{server="cache-%s"}`,
				zone)], 64)
			require.NoError(r.t, err)
			require.Equal(r.t, "1",
				samples[fmt.Sprintf(`mcmw_server_info{pool="",server="cache-%s",shadow_of="",zone="%s"}`, zone, zone)])
			sums[zone] += n
		}
	}
	return sums
}
