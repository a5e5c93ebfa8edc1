package main

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
