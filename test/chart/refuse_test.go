package chart

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestInvalidValuesAreRefusedWithTheirKey(t *testing.T) {
	for set, message := range map[string]string{
		// Mistakes that the schema refuses.
		"replica=3":                            `at '': additional properties 'replica' not allowed`,
		"memcached.replica=3":                  `at '/memcached': additional properties 'replica' not allowed`,
		"config.wrokers=3":                     `at '/config': additional properties 'wrokers' not allowed`,
		"config.drain-timeout=3s":              `at '/config': additional properties 'drain-timeout' not allowed`,
		"metrics.serviceMonitor.enable=true":   `at '/metrics/serviceMonitor': additional properties 'enable' not allowed`,
		"resources.limit.cpu=1":                `at '/resources': additional properties 'limit' not allowed`,
		"probes.startup.period=1":              `at '/probes/startup': additional properties 'period' not allowed`,
		"replicas=three":                       `at '/replicas': got string, want integer`,
		"replicas=-1":                          `at '/replicas': minimum: got -1, want 0`,
		"socketDirectory=run":                  `at '/socketDirectory'`,
		"kind=StatefulSet":                     `at '/kind': value must be one of 'Deployment', 'DaemonSet'`,
		"service.port=70000":                   `at '/service/port': maximum: got 70,000, want 65,535`,
		"config.sample=false":                  `at '/config/sample': got boolean, want string`,
		"config.ack=evrything":                 `at '/config/ack': value must be one of 'all', 'live', 'quorum', 'any'`,
		"config.workers=5000":                  `at '/config/workers': maximum: got 5,000, want 1,024`,
		"config.timeout=5":                     `at '/config/timeout': got number, want string`,
		"config.timeout=5sec":                  `at '/config/timeout': '5sec' does not match pattern`,
		"config.max-value=2mb":                 `at '/config/max-value': '2mb' does not match pattern`,
		"config.sharded=maybe":                 `at '/config/sharded': value must be one of true, false`,
		"config.replicas=4":                    `config.replicas is 4 and there are 3 servers (memcached.replicas): expected all, or 1 to 3`,
		"config.hash-tag=abc":                  `at '/config/hash-tag': 'abc' does not match pattern`,
		"config.resolver=10.0.0.1":             `at '/config/resolver': '10.0.0.1' does not match pattern`,
		"config.timeout=1h1ms":                 `config.timeout is 1h1ms: expected 1ms to 1h, with a unit: us, ms, s, m, h`,
		"config.resolve-interval=99.5ms":       `config.resolve-interval is 99.5ms: expected 100ms to 1h, with a unit: us, ms, s, m, h`,
		"config.max-value=2G":                  `config.max-value is 2G: expected 1k to 1g bytes; k, m and g multiply by 1024`,
		"image.digest=sha256:12":               `at '/image/digest': 'sha256:12' does not match pattern`,
		"extraEnv[0].value=a":                  `at '/extraEnv/0': missing property 'name'`,
		"podDisruptionBudget.maxUnavailable=x": `at '/podDisruptionBudget/maxUnavailable': 'x' does not match pattern`,
		"podDisruptionBudget.minAvailable=-1":  `at '/podDisruptionBudget/minAvailable': minimum: got -1, want 1`,
		"replicaCount=two":                     `at '/replicaCount': 'two' does not match pattern`,
		"tolerations[0].kye=a":                 `at '/tolerations/0': additional properties 'kye' not allowed`,

		// Contradictions that the templates refuse.
		"drain.timeoutSeconds=24": "drain.gracePeriodSeconds is " +
			"30: the kubelet would kill mcmw while it drains; expected at least 31",
		"drain.preStopSleepSeconds=9": "drain.gracePeriodSeconds is " +
			"30: the kubelet would kill mcmw while it drains; expected at least 31",
		"drain.gracePeriodSeconds=26": "drain.gracePeriodSeconds is " +
			"26: the kubelet would kill mcmw while it drains; expected at least 27",
		"servers={a}": "servers is set, and " +
			"memcached.enabled is true",
		"memcached.enabled=false,servers={a,b},config.replicas=3": "config.replicas is 3 and " +
			"there are 2 servers (servers): expected all, or 1 to 2",
		"config.writers=one": "config.writers is one and " +
			"there can be several pods of mcmw: each would write as if it were the only one, and copies of a key " +
			"would " +
			"differ permanently; expected config.writers=several, or replicas=1 without autoscaling",
		"config.writers=one,replicas=1,autoscaling.enabled=true": "config.writers is one and " +
			"there can be several pods of mcmw",
		"config.pools.a.servers={x}": "config.pools is set, and " +
			"pools have their own servers: set memcached.enabled=false",
		"memcached.pools[0].name=a,config.pools.a.servers={x}": "config.pools.a.servers is set, and " +
			"memcached.pools[0].name is a: expected options of the chart's pool without its servers, or another name",
		"memcached.pools[0].name=a,config.pools.b.ack=any": "config.pools.b has no servers, and " +
			"memcached.pools has no pool of this name; expected servers, or one of the names a",
		"memcached.pools[0].name=a,config.pools.b.servers={x},networkPolicy.enabled=true": "networkPolicy.egress is " +
			"empty: mcmw could not connect to your servers",
		"memcached.pools[0].name=a,memcached.pools[1].name=a": `memcached.pools has the name "a", which exists already`,
		"memcached.pools[0].replicas=2":                       `at '/memcached/pools/0': missing property 'name'`,
		"memcached.pools[0].name=a,memcached.pools[0].enabled=true": `at '/memcached/pools/0': additional properties ` +
			`'enabled' not allowed`,
		"memcached.pools[0].name=a,memcached.pools[0].memoryMiB=x": `at '/memcached/pools/0/memoryMiB': got string`,
		"memcached.pools[0].name=a,memcached.pools[0].memoryMiB=113": "memcached.pools[0].resources.limits.memory is " +
			"128Mi: memcached would be killed before it is full; expected at least 129Mi, which is " +
			"memcached.pools[0].memoryMiB plus 16",
		"memcached.pools[0].name=a,memcached.pools[0].image.tag=1.6.18": "memcached.pools[0].image.tag is 1.6.18 and " +
			"there can be several pods of mcmw",
		"memcached.pools[0].name=a,config.pools.a.replicas=4": "config.pools.a.replicas is 4 and there are 3 servers " +
			"(memcached.pools[0].replicas): expected all, or 1 to 3",
		"memcached.pools[0].name=a,config.pools.a.writers=one": "config.pools.a.writers is one and there can be " +
			"several pods",
		"memcached.pools[0].name=a,memcached.pools[1].name=b,serverTLS.enabled=true,memcached.tls.secretName=": "the " +
			"servers of several pools have different names",
		"memcached.enabled=false": "memcached.enabled is false " +
			"and servers is empty",
		"kind=DaemonSet,keda.enabled=true": "kind is DaemonSet, which has " +
			"one pod per node",
		"kind=DaemonSet,autoscaling.enabled=true": "kind is DaemonSet, which has " +
			"one pod per node",
		"socketDirectory=/run/mcmw": "two pods of a node could not share its socket",
		"socketDirectory=/run/mcmw,kind=DaemonSet": "a pod can't listen on the socket before the previous one has " +
			"ended",
		"autoscaling.enabled=true,keda.enabled=true": "autoscaling.enabled and " +
			"keda.enabled are both true",
		"keda.enabled=true": "expected keda.prometheusAddress or keda.triggers",
		"autoscaling.enabled=true,autoscaling.targetCPUUtilization=0": "autoscaling.enabled is true, " +
			"but there is no metric to scale by",
		"autoscaling.enabled=true,autoscaling.minReplicas=11": "autoscaling.minReplicas is " +
			"11 and autoscaling.maxReplicas is 10",
		"autoscaling.enabled=true,resources.requests.cpu=null": "autoscaling.targetCPUUtilization is relative to " +
			"resources.requests.cpu, which is not set",
		"metrics.serviceMonitor.enabled=true,metrics.podMonitor.enabled=true": "every pod would be scraped " +
			"twice",
		"updateStrategy.maxSurge=0":                      "no pod could ever be replaced",
		"kind=DaemonSet,updateStrategy.maxUnavailable=1": "expected one of them to be 0",
		"tls.clientCA=true": "tls.clientCA is true and " +
			"tls.secretName is empty",
		"serverTLS.enabled=true": "memcached.tls.secretName and " +
			"serverTLS.enabled belong together",
		"memcached.tls.secretName=a": "memcached.tls.secretName and " +
			"serverTLS.enabled belong together",
		"serverTLS.clientCertificate=true": "serverTLS.clientCertificate " +
			"is true and serverTLS.secretName is empty",
		"memcached.memoryMiB=113": "memcached.resources.limits.memory is 128Mi: memcached would be killed " +
			"before it is full; expected at least 129Mi",
		"resources.limits.memory=1Q": `"1Q" is not a quantity of memory that the chart understands`,
		"extraEnv[0].name=MCMW_DRAIN_TIMEOUT,extraEnv[0].value=60s": "extraEnv has " +
			"MCMW_DRAIN_TIMEOUT, which the chart sets: use drain.timeoutSeconds",
		"extraArgs={--drain-timeout=60s}": "extraArgs has " +
			"--drain-timeout, which the chart sets: use drain.timeoutSeconds",
		"extraArgs={-m,a}": "extraArgs has -m, which the " +
			"chart sets: use servers",
		"extraEnv[0].name=A,extraEnv[1].name=A":                                       `extraEnv has the name "A", which exists already`,
		"extraVolumes[0].name=config":                                                 `extraVolumes has the name "config", which exists already`,
		"extraVolumeMounts[0].name=a,extraVolumeMounts[0].mountPath=/etc/mcmw/config": `extraVolumeMounts has the mountPath "/etc/mcmw/config", which exists already`,
		"extraContainers[0].name=mcmw":                                                `extraContainers has the name "mcmw", which exists already`,
		"memcached.extraVolumes[0].name=tls":                                          `memcached.extraVolumes has the name "tls", which exists already`,
	} {
		for version, h := range helms {
			t.Run(set+"/"+version, func(t *testing.T) {
				require.Contains(t, refused(t, h, chartDir, "--set", set), message)
			})
		}
	}
}

func TestInvalidValuesOfTheLoadAreRefusedWithTheirKey(t *testing.T) {
	for set, message := range map[string]string{
		"replica=3":                     `at '': additional properties 'replica' not allowed`,
		"generator=ab":                  `at '/generator': value must be one of 'memtier', 'mcmwlab'`,
		"jobs[0].nam=a":                 `at '/jobs/0': missing property 'name'`,
		"jobs[0].name=a,jobs[1].name=a": `jobs has the name "a", which exists already`,
		"auth.secretName=a": "auth.secretName is set and generator is memtier, which cannot authenticate over the " +
			"text protocol: expected generator=mcmwlab",
	} {
		for version, h := range helms {
			t.Run(set+"/"+version, func(t *testing.T) {
				require.Contains(t, refused(t, h, loadDir, "--set", set), message)
			})
		}
	}
}

func TestTheLoadOfAnEarlierChartIsRefusedWithItsNewPlace(t *testing.T) {
	for set, key := range map[string]string{
		"loadgen.enabled=true": "loadgen.enabled", "loadgen.jobs[0].name=a": "loadgen.jobs",
		"tests.load.enabled=true": "tests.load.enabled",
	} {
		for version, h := range helms {
			t.Run(set+"/"+version, func(t *testing.T) {
				message := refused(t, h, chartDir, "--set", set+",fullnameOverride=cache")
				require.Contains(t, message, key+" is set, and the load is a chart of its own now, mcmw-load")
				require.Contains(t, message, "helm install mcmw-load deploy/helm/mcmw-load --set target.host=cache")
			})
		}
	}
	// With --reuse-values the defaults of the earlier chart remain.
	render(t, helms["v4"], "--set", "loadgen.enabled=false,loadgen.replicas=1,tests.load.keys=10")
}
