package main

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

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
