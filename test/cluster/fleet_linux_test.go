package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/test/history"
)

// during runs change under a verified load, and then compares all copies of every key. No request may fail.
func (r *release) during(change func()) *history.Verified {
	r.t.Helper()
	v := r.verify()
	change()
	counted := v.stop()
	require.NoError(r.t, counted.Broken(), "%v", counted.Examples)
	r.compareReplicas()
	return counted
}

// compareReplicas runs mcmw verify-replicas in a pod of the fleet, and fails if copies of a key differ.
func (r *release) compareReplicas() {
	r.t.Helper()
	r.t.Log(r.kubectl("exec", "deployment/mcmw", "--", "/mcmw", "verify-replicas", "--values"))
}

// connections returns the number of client connections of each pod of mcmw.
func (r *release) connections() (open []float64, err error) {
	for _, p := range r.pods("proxy") {
		samples, err := r.metrics(p.Metadata.Name)
		if err != nil {
			return nil, err
		}
		n, err := strconv.ParseFloat(samples["mcmw_connections"], 64)
		if err != nil {
			return nil, err
		}
		open = append(open, n)
	}
	return open, nil
}

// requireNothingFailed fails if a client received an error, or noticed anything at its connection.
func (r *release) requireNothingFailed(counted *history.Verified) {
	r.t.Helper()
	require.Zero(r.t, counted.Reads.Failed+counted.Writes.Failed+counted.Shared.Failed, "%v", counted.Errors)
	require.Zero(r.t, counted.Reads.Lost+counted.Writes.Lost+counted.Ended+counted.Refused, "%v", counted.Examples)
}

// requireNearlyNothingFailed is requireNothingFailed for tests in which each server ends once. A few errors are
// accepted: when a server ends, mcmw cannot know whether it has executed a command that it alone decides, such as incr,
// and says so to the client. And mcmw answers with errors while it can't read the marks of others, for which servers
// must answer within a quarter of a second; on a busy machine some don't.
func (r *release) requireNearlyNothingFailed(counted *history.Verified) {
	r.t.Helper()
	failed := counted.Reads.Failed + counted.Writes.Failed + counted.Shared.Failed
	require.LessOrEqual(r.t, failed, (counted.Reads.Sent+counted.Writes.Sent+counted.Shared.Requests)/200, "%v",
		counted.Errors)
	require.Zero(r.t, counted.Reads.Lost+counted.Writes.Lost+counted.Ended+counted.Refused, "%v", counted.Examples)
}

// requireNothingOld fails if a value was older than an acknowledged write, or if nobody wrote it, or if replicas
// differ. Misses are accepted, even of counters: a server lost its memory, or keys moved.
func (r *release) requireNothingOld(counted *history.Verified) {
	r.t.Helper()
	s := counted.Shared
	require.Zero(r.t, counted.Wrong+counted.Stale, "%v", counted.Examples)
	require.Zero(r.t, s.Wrong+s.Stale+s.Twice+s.Differing, "%v", counted.Examples)
	r.compareReplicas()
}

func TestClientsOfTwoPodsLoseNoIncrementNoLockAndNoSet(t *testing.T) {
	r := install(t, "fleet")
	v := r.verify("--shared-clients", "8", "--shared-rate", "1500")
	eventually(t, "the load has had its requests", func() error {
		if served, err := r.served(); err != nil || served < 30_000 {
			return fmt.Errorf("%d were served: %w", served, err)
		}
		return nil
	})
	counted := v.stop()
	require.NoError(t, counted.Broken(), "%v", counted.Examples)
	assert.Greater(t, counted.Shared.Increments, uint64(1000))
	assert.Greater(t, counted.Shared.Contests, uint64(300))
	r.compareReplicas()
}

func TestAddingServersCausesNoOldValueFailsNearlyNoRequestAndMovesNoMoreKeysThanItMust(t *testing.T) {
	for _, to := range []struct {
		replicas string
		servers  []int
		missed   float64 // the largest share
	}{{"all", []int{3, 4, 5}, .05}, {"2", []int{3, 4}, .05}, {"1", []int{3, 4}, .05}} {
		t.Run(fmt.Sprintf("with replicas %s, %v", to.replicas, to.servers), func(t *testing.T) {
			// Pods learn of a server up to some seconds apart, as with the defaults, 5s and 15s.
			r := install(t, "added-"+to.replicas, "--set",
				fmt.Sprintf("memcached.replicas=%d,config.replicas=%s,config.resolve-interval=2s,config.change-step=6s",
					to.servers[0], to.replicas))
			for _, n := range to.servers[1:] {
				r.populate()
				v := r.verify("--shared-clients", "8", "--shared-rate", "1000")
				r.scaleMemcached(n)
				counted := v.stop()
				missed := r.missed()
				t.Logf("%d servers: %.2f %% of the kept keys were missed", n, 100*missed)
				assert.LessOrEqual(t, missed, to.missed)
				r.requireNearlyNothingFailed(counted)
				r.requireNothingOld(counted)
			}
		})
	}
}

func TestReplacingServersOneByOneCausesNoOldValueWithAckQuorum(t *testing.T) {
	r := install(t, "quorum", "--set", "config.ack=quorum")
	before := r.pods("memcached")
	v := r.verify()
	r.kubectl("rollout", "restart", "statefulset/mcmw-memcached")
	r.kubectl("rollout", "status", "statefulset/mcmw-memcached", "--timeout", "5m")
	counted := v.stop()
	assert.NotSubset(t, ids(before), ids(r.pods("memcached")))
	r.requireNearlyNothingFailed(counted)
	r.requireNothingOld(counted)
}

func TestConnectionsSpreadOverFourPodsWithinTheirAgeAndNoRequestFails(t *testing.T) {
	r := install(t, "spread", "--set", "replicas=1", "--set", "config.max-connection-age=20s")
	v := r.verify("--clients", "400")
	r.kubectl("scale", "deployment/mcmw", "--replicas", "4")
	r.kubectl("rollout", "status", "deployment/mcmw", "--timeout", "3m")
	eventually(t, "the pods' connections differ by a fifth at most", func() error {
		open, err := r.connections()
		if err != nil {
			return err
		}
		if most, least := slices.Max(open), slices.Min(open); least < 60 || most-least > (most+least)/2/5 {
			return fmt.Errorf("connections: %v", open)
		}
		t.Log("connections:", open)
		return nil
	})
	counted := v.stop()
	require.NoError(t, counted.Broken(), "%v", counted.Examples)
}

func TestAnInstallationWithoutValuesRefusesAWrongOptionAndWaitsForTheEndOfAnEarlierOne(t *testing.T) {
	r := prepare(t, "defaults")
	install := []string{"install", "mcmw", chart(), "--wait", "--timeout", "3m"}
	r.helm(install...)
	r.helm("test", "mcmw", "--timeout", "1m")
	before := r.pods("proxy")
	_, err := r.tryHelm("upgrade", "mcmw", chart(), "--set", "config.ack=evrything")
	require.ErrorContains(t, err, "at '/config/ack': value must be one of")
	var releases []struct{ Revision, Status string }
	require.NoError(t, json.Unmarshal([]byte(r.helm("list", "--output", "json")), &releases))
	require.Len(t, releases, 1)
	assert.Equal(t, "1", releases[0].Revision)
	assert.Equal(t, "deployed", releases[0].Status)
	// What the schema cannot know, mcmw says before anything changes.
	_, err = r.tryHelm("upgrade", "mcmw", chart(), "--set", "config.hash=md5")
	require.ErrorContains(t, err, "needs a ketama ring")
	assert.NotContains(t, r.kubectl("get", "configmap", "mcmw", "--output", "yaml"), "md5")
	assert.Equal(t, ids(before), ids(r.pods("proxy")))

	r.helm("uninstall", "mcmw")
	_, err = r.tryHelm(install...)
	require.ErrorContains(t, err, "of an earlier installation is still terminating")
	r.kubectl("wait", "--for=delete", "pod", "--selector",
		"app.kubernetes.io/instance=mcmw,app.kubernetes.io/component notin (check,test)", "--timeout=2m")
	r.helm(install...)
}
