package main

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// pooled are values with two pools of the chart, of which the second is the gutter of the first.
const pooled = `memcached.pools=[{"name": "memcached"}, {"name": "spare", "podAnnotations": {"pool": "spare"}}]`

func TestAGutterOfTheChartServesTheKeysOfADeletedPodAndNothingOldIsRead(t *testing.T) {
	r := install(t, "pools")
	before := r.pods("memcached")
	// The release goes from one pool to two, and its servers stay.
	r.helm("upgrade", "mcmw", chart(), "--reuse-values", "--set-json", pooled, "--set",
		"config.replicas=1,config.pools.memcached.gutter=spare,config.pools.memcached.gutter-ttl=30s")
	require.Equal(t, ids(before), ids(r.pods("memcached")))
	// Running mcmw refuse to replace a list by pools. The pods of the new pool are ready only when mcmw uses them.
	old := r.pods("proxy")
	r.restart("deployment/mcmw")
	r.awaitGone(old)
	r.awaitServers(6)
	r.kubectl("rollout", "status", "statefulset/mcmw-memcached-spare", "--timeout", "3m")
	require.Len(t, r.pods("memcached-spare"), 3)

	v := r.verify("--shared-clients", "0")
	for _, p := range r.pods("memcached") {
		r.kubectl("delete", "pod", p.Metadata.Name, "--wait=true")
		r.kubectl("rollout", "status", "statefulset/mcmw-memcached", "--timeout", "3m")
		r.awaitServers(6)
	}
	counted := v.stop()
	require.Zero(t, counted.Wrong+counted.Stale, "%v", counted.Examples)
	require.Zero(t, counted.Reads.Lost+counted.Writes.Lost+counted.Ended+counted.Refused, "%v", counted.Examples)
	// Until all mcmw know of a failed server, about 600 ms, requests for its keys fail.
	failed, sent := counted.Reads.Failed+counted.Writes.Failed, counted.Reads.Sent+counted.Writes.Sent
	assert.LessOrEqual(t, failed, sent/20, "%v", counted.Errors)
	used := 0.0
	for _, p := range r.pods("proxy") {
		samples, err := r.metrics(p.Metadata.Name)
		require.NoError(t, err)
		for name, value := range samples {
			if strings.HasPrefix(name, "mcmw_gutter_requests_total{") {
				n, err := strconv.ParseFloat(value, 64)
				require.NoError(t, err)
				used += n
			}
		}
	}
	t.Logf("%d of %d requests failed, %.0f were of the gutter", failed, sent, used)
	assert.Positive(t, used)
}

// restart replaces the pods of a workload one after the other.
func (r *release) restart(workload string) {
	r.t.Helper()
	r.kubectl("rollout", "restart", workload)
	r.kubectl("rollout", "status", workload, "--timeout", "3m")
}
