package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/test/history"
)

// away keeps pods of memcached from being scheduled; mcmw's tolerate it.
const away = "away"

// A drain of a node with a pod of each comes to this. A pod that is deleted leaves the EndpointSlice until its
// replacement has an address.
func TestAnMcmwThatStartsWhileAServerIsAwayJoinsTheListInForceAndReadsNothingOld(t *testing.T) {
	// The times are the chart's own, except that any lookup that lacks a server would remove it, if the StatefulSet did
	// not say that it stays. Connections are renewed often, so that the new pod is used, too.
	r := install(t, "away", "--set",
		"config.resolve-interval=5s,config.remove-after=1,config.change-step=15s,config.max-connection-age=10s",
		"--set-json", fmt.Sprintf(`tolerations=[{"key": %q, "operator": "Exists"}]`, away))
	counted := r.whileShared(func() {
		untaint := r.taint()
		r.kubectl("delete", "pod", "mcmw-memcached-1", "--wait=true")
		first := r.pods("proxy")[0]
		r.kubectl("delete", "pod", first.Metadata.Name, "--wait=true")
		r.kubectl("rollout", "status", "deployment/mcmw", "--timeout", "3m")
		for _, p := range r.pods("proxy") {
			samples, err := r.metrics(p.Metadata.Name)
			require.NoError(t, err)
			settled := func(name string) bool { return strings.HasPrefix(name, `mcmw_placement_info{phase="settled"`) }
			assert.True(t, slices.ContainsFunc(slices.Collect(maps.Keys(samples)), settled),
				"%s has another placement than the one in force", p.Metadata.Name)
			assert.Contains(t, samples, `mcmw_server_state{server="mcmw-memcached-1",state="down"}`, p.Metadata.Name)
		}
		untaint()
		r.kubectl("rollout", "status", "statefulset/mcmw-memcached", "--timeout", "3m")
		r.awaitServers(3)
	})
	r.requireNothingOld(counted)
	require.Zero(t, counted.Shared.SeveralWinners, "of %d locks", counted.Shared.Contests)
	logs := r.kubectl("logs", "--selector", "app.kubernetes.io/component=proxy", "--tail=-1")
	require.NotContains(t, logs, "the placement of keys changes")
}

// The third server goes on: all mcmw vouch for it there, and it fills the others.
func TestTwoServersThatAreDeletedAtOnceComeBackWithTheirKeysAndNothingOld(t *testing.T) {
	r := install(t, "two-away", "--set", "config.max-connection-age=10s,config.timeout=2s")
	r.populate()
	counted := r.whileShared(func() {
		r.kubectl("delete", "pod", "mcmw-memcached-0", "mcmw-memcached-1", "--wait=true")
		r.kubectl("rollout", "status", "statefulset/mcmw-memcached", "--timeout", "3m")
		r.awaitServers(3)
	})
	missed := r.missed()
	t.Logf("%.2f %% of the kept keys were missed", 100*missed)
	require.LessOrEqual(t, missed, .01)
	failed, sent := counted.Reads.Failed+counted.Writes.Failed, counted.Reads.Sent+counted.Writes.Sent
	assert.LessOrEqual(t, failed, sent/20, "%v", counted.Errors) // until all mcmw know
	require.Zero(t, counted.Reads.Lost+counted.Writes.Lost+counted.Refused, "%v", counted.Examples)
	r.requireNothingOld(counted)
}

// whileShared calls change under a load whose clients also share keys, and waits until they are served afterwards.
func (r *release) whileShared(change func()) *history.Verified {
	r.t.Helper()
	v := r.verify("--shared-clients", "8", "--shared-rate", "1000")
	change()
	begin, err := r.served()
	require.NoError(r.t, err)
	eventually(r.t, "the load is served afterwards", func() error {
		now, err := r.served()
		if err == nil && now < begin+10_000 {
			err = fmt.Errorf("%d requests were", now-begin)
		}
		return err
	})
	return v.stop()
}

// taint keeps pods that don't tolerate it from being scheduled until untaint is called or the test ends.
func (r *release) taint() (untaint func()) {
	r.kubectl("taint", "node", "--all", away+"=true:NoSchedule")
	tainted := true
	untaint = func() {
		if tainted {
			tainted = false
			r.kubectl("taint", "node", "--all", away+"-")
		}
	}
	r.t.Cleanup(untaint)
	return untaint
}
