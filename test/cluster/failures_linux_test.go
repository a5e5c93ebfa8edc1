package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestARollingUpgradeAndScalingOfMcmwFailNoRequest(t *testing.T) {
	r := install(t, "upgrade")
	before := r.pods("proxy")
	counted := r.during(func() {
		// An option that cannot change while mcmw runs, so that every pod is replaced.
		r.helm("upgrade", "mcmw", chart(), "--reuse-values", "--set", "config.max-connection-age=10s", "--wait",
			"--timeout", "3m")
		r.kubectl("rollout", "status", "deployment/mcmw", "--timeout", "3m")
		r.awaitGone(before)
	})
	assert.GreaterOrEqual(t, counted.Ended, uint64(8), "every client must have reconnected at least once")
	counted = r.during(func() {
		r.kubectl("scale", "deployment/mcmw", "--replicas", "4")
		r.kubectl("rollout", "status", "deployment/mcmw", "--timeout", "3m")
		eventually(t, "clients have moved to the new pods", func() error {
			open, err := r.connections()
			if err == nil && slices.Min(open) == 0 {
				err = fmt.Errorf("connections: %v", open)
			}
			return err
		})
		r.kubectl("scale", "deployment/mcmw", "--replicas", "2")
		eventually(t, "two pods are gone", func() error {
			if left := len(r.pods("proxy")); left != 2 {
				return fmt.Errorf("there are %d", left)
			}
			return nil
		})
	})
	assert.Positive(t, counted.Ended)
}

func TestAnOptionInTheWatchedFileChangesWithoutANewPodAndFailsNoRequest(t *testing.T) {
	r := install(t, "reload")
	before := r.pods("proxy")
	v := r.verify()
	r.helm("upgrade", "mcmw", chart(), "--reuse-values", "--set", "config.workers=7", "--wait", "--timeout", "3m")
	eventually(t, "the pods have the new value", func() error {
		for _, p := range r.pods("proxy") {
			samples, err := r.metrics(p.Metadata.Name)
			if err != nil {
				return err
			}
			if n := samples["mcmw_workers"]; n != "7" {
				return fmt.Errorf("%s has %s workers", p.Metadata.Name, n)
			}
		}
		return nil
	})
	counted := v.stop()
	require.NoError(t, counted.Broken(), "%v", counted.Examples)
	assert.Zero(t, counted.Ended)
	assert.Equal(t, ids(before), ids(r.pods("proxy")))
}

func TestDeletingAPodOfMcmwFailsNoRequest(t *testing.T) {
	r := install(t, "delete-mcmw")
	counted := r.during(func() {
		for _, p := range r.pods("proxy") {
			r.kubectl("delete", "pod", p.Metadata.Name, "--wait=true")
			r.kubectl("rollout", "status", "deployment/mcmw", "--timeout", "3m")
		}
	})
	require.GreaterOrEqual(t, counted.Ended, uint64(8), "every client must have reconnected at least once")
}

func TestDeletingAMemcachedPodFailsNoReadAndTheNewPodIsUsed(t *testing.T) {
	r := install(t, "delete-memcached")
	before := r.pods("memcached")
	victim := before[1]
	v := r.verify()
	r.kubectl("delete", "pod", victim.Metadata.Name, "--wait=true")
	r.kubectl("rollout", "status", "statefulset/mcmw-memcached", "--timeout", "3m")
	after := r.pods("memcached")[1]
	require.Equal(t, victim.Metadata.Name, after.Metadata.Name)
	require.NotEqual(t, victim.Status.PodIP, after.Status.PodIP)
	var used float64
	eventually(t, "it is up for every mcmw and used again", func() error {
		now := 0.0
		for _, p := range r.pods("proxy") {
			samples, err := r.metrics(p.Metadata.Name)
			if err != nil {
				return err
			}
			if state := samples[fmt.Sprintf(`mcmw_server_state{server="%s",state="up"}`,
				victim.Metadata.Name)]; state != "1" {
				return fmt.Errorf("it is not up for %s", p.Metadata.Name)
			}
			count, err := strconv.ParseFloat(samples[fmt.Sprintf(`mcmw_server_duration_seconds_count{server="%s"}`,
				victim.Metadata.Name)], 64)
			if err != nil {
				return err
			}
			now += count
		}
		if used == 0 {
			used = now
		}
		if now < used+50 {
			return fmt.Errorf("it had %v requests, now %v", used, now)
		}
		return nil
	})
	counted := v.stop()
	assert.Zero(t, counted.Reads.Failed+counted.Writes.Failed, "%v", counted.Errors)
	assert.Zero(t, counted.Reads.Lost+counted.Writes.Lost, "%v", counted.Examples)
	assert.Zero(t, counted.Ended+counted.Refused, "no client may notice anything at its connection")
	r.requireNothingOld(counted)
}

// awaitGone waits until none of the pods exists.
func (r *release) awaitGone(pods []pod) {
	r.t.Helper()
	for _, p := range pods {
		r.kubectl("wait", "--for=delete", "pod/"+p.Metadata.Name, "--timeout", "2m")
	}
}

func ids(pods []pod) (ids []string) {
	for _, p := range pods {
		ids = append(ids, p.Metadata.UID)
	}
	return ids
}

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
