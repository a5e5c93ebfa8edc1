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

// keptKeys are arguments of mcmwlab load for keys that nobody writes during a change.
var keptKeys = []string{"--clients", "4", "--data-size", "32", "--key-minimum", "1", "--key-maximum", "2000"}

// populate stores the kept keys.
func (r *release) populate() {
	r.t.Helper()
	r.load(append(keptKeys, "--populate", "--ratio", "0:1", "--test-time", "1")...)
	require.Zero(r.t, r.missed())
}

// missed returns the share of the kept keys that are missed. It reads many more random keys than there are, so that
// each counts about equally often. It is repeated if a read fails, which happens on a busy machine.
func (r *release) missed() (share float64) {
	r.t.Helper()
	eventually(r.t, "no read fails", func() error {
		result, err := r.tryLoad(append(keptKeys, "--ratio", "0:1", "--requests", "10000")...)
		if err == nil {
			share = float64(result.Total.Misses) / float64(result.Total.Misses+result.Total.Hits)
		}
		return err
	})
	return share
}

// operation is something that the platform does to all memcached servers, one after the other.
type operation struct {
	what string
	do   func(r *release)
}

func TestRestartsUpgradesAndDrainsOfAllServersKeepTheirKeys(t *testing.T) {
	r := install(t, "operations", "--set", "config.timeout=2s,memcached.minReadySeconds=5")
	r.populate()
	for _, o := range []operation{
		{"kubectl rollout restart", func(r *release) { r.restart("statefulset/mcmw-memcached") }},
		{"an argument changed", func(r *release) { r.upgradeMemcached("threads=2") }},
		{"an image changed", func(r *release) { r.upgradeMemcached("image.tag=1.6.39") }},
		{"kubectl drain", (*release).drainMemcached},
	} {
		before := ids(r.pods("memcached"))
		v := r.verify("--shared-clients", "8", "--shared-rate", "1000")
		o.do(r)
		counted := v.stop()
		missed := r.missed()
		t.Logf("%s: %.2f %% of the kept keys were missed", o.what, 100*missed)
		assert.LessOrEqual(t, missed, .01, o.what)
		for _, id := range ids(r.pods("memcached")) {
			assert.NotContains(t, before, id, o.what)
		}
		r.requireNearlyNothingFailed(counted)
		r.requireNothingOld(counted)
	}
}

// upgradeMemcached changes a value of memcached by a helm upgrade, which replaces the pods one after the other.
func (r *release) upgradeMemcached(value string) {
	r.t.Helper()
	r.helm("upgrade", "mcmw", chart(), "--reuse-values", "--set", "memcached."+value, "--wait", "--timeout", "5m")
	r.kubectl("rollout", "status", "statefulset/mcmw-memcached", "--timeout", "5m")
}

// drainMemcached drains the node of memcached. There is only this node, so pods may return to it.
func (r *release) drainMemcached() {
	r.t.Helper()
	node := r.pods("memcached")[0].Spec.NodeName
	drained := make(chan error, 1)
	go func() {
		_, err := r.tryKubectl("drain", node, "--timeout", "5m", "--pod-selector",
			"app.kubernetes.io/component=memcached")
		drained <- err
	}()
	eventually(r.t, "the node is cordoned", func() error {
		if r.kubectl("get", "node", node, "--output", "jsonpath={.spec.unschedulable}") != "true" {
			return fmt.Errorf("%s is not", node)
		}
		return nil
	})
	r.kubectl("uncordon", node)
	require.NoError(r.t, <-drained)
	r.kubectl("rollout", "status", "statefulset/mcmw-memcached", "--timeout", "3m")
}

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
