package chart

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// mcmw returns the path of the program, which is built once.
var mcmw = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "mcmw-chart")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "mcmw")
	cmd := exec.Command("go", "-C", "../..", "build", "-o", path, "./cmd/mcmw")
	cmd.Stderr = os.Stderr
	return path, cmd.Run()
})

func TestMain(m *testing.M) {
	code := m.Run()
	if path, err := mcmw(); err == nil {
		_ = os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

// check returns the Job that runs before a deployment, and its container.
func (o *objects) check(t *testing.T) (*batchv1.Job, corev1.Container) {
	t.Helper()
	job := named[*batchv1.Job](t, o, "mcmw-check")
	return job, job.Spec.Template.Spec.Containers[0]
}

// runCheck runs the command of that Job with the file and the environment that it has there.
func runCheck(t *testing.T, o *objects) (output string, err error) {
	t.Helper()
	program, err := mcmw()
	require.NoError(t, err)
	_, c := o.check(t)
	file := filepath.Join(t.TempDir(), "mcmw.yaml")
	require.NoError(t, os.WriteFile(file, []byte(named[*corev1.ConfigMap](t, o, "mcmw-check").Data["mcmw.yaml"]),
		0o600))
	cmd := exec.Command(program, c.Args...)
	for name, value := range environment(c) {
		if value == filepath.Join(c.VolumeMounts[0].MountPath, "mcmw.yaml") {
			value = file
		}
		if !strings.HasPrefix(name, "GO") {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// The Job runs before the objects of the release exist: it has all that it needs.
func TestTheCheckReadsTheConfigurationOfThePodsAndNeedsNothingOfTheRelease(t *testing.T) {
	forEach(t, func(t *testing.T, o *objects) {
		var job *batchv1.Job
		for _, j := range of[*batchv1.Job](o) {
			if strings.HasSuffix(j.Name, "-check") {
				job = j
			}
		}
		require.NotNil(t, job)
		owner, proxy := o.proxy(t)
		c := job.Spec.Template.Spec.Containers[0]
		require.Equal(t, environment(proxy), environment(c))
		require.Equal(t, proxy.Image, c.Image)
		require.Equal(t, append([]string{"config", "check", "--no-files"}, proxy.Args[1:]...), c.Args)
		file := named[*corev1.ConfigMap](t, o, job.Spec.Template.Spec.Volumes[0].ConfigMap.Name)
		require.Equal(t, named[*corev1.ConfigMap](t, o, owner.owner.GetName()).Data, file.Data)
		require.Len(t, job.Spec.Template.Spec.Volumes, 1)
		for _, hook := range []map[string]string{job.Annotations, file.Annotations} {
			require.Equal(t, "pre-install,pre-upgrade", hook["helm.sh/hook"])
		}
		require.Less(t, file.Annotations["helm.sh/hook-weight"], "0", "the file comes first")
		for _, e := range c.Env {
			if from := e.ValueFrom; from != nil && from.SecretKeyRef != nil {
				require.True(t, *from.SecretKeyRef.Optional)
			}
		}
		for _, from := range c.EnvFrom {
			if from.ConfigMapRef != nil {
				require.True(t, *from.ConfigMapRef.Optional)
			}
		}
	})
	off := render(t, helms["v4"], "--set", "configCheck=false")
	require.Empty(t, of[*batchv1.Job](off))
}

func TestTheCheckAcceptsWhatMcmwAccepts(t *testing.T) {
	for _, args := range [][]string{
		nil,
		{"--values", filepath.Join(chartDir, "values-minimal.yaml")},
		{"--values", filepath.Join(chartDir, "values-production.yaml")},
		{
			"--set",
			"tls.secretName=a,tls.clientCA=true,auth.secretName=b,serverTLS.enabled=true,serverTLS.secretName=c," +
				"memcached.tls.secretName=c,serverAuth.secretName=d",
		},
		{"--values", valuesFile(t, pools+"  routes: [{default: a}]\n  shadows: [{of: a, to: b, share: 0.1}]\n")},
		{"--set", "config.large-values=16m,config.max-value=16m"},
	} {
		output, err := runCheck(t, render(t, helms["v4"], args...))
		require.NoError(t, err, "%s: %s", args, output)
	}
}

// valuesFile returns the path of a file with values.
func valuesFile(t *testing.T, values string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "values.yaml")
	require.NoError(t, os.WriteFile(path, []byte(values), 0o600))
	return path
}

// pools are values with three pools; options of mcmw can follow.
const pools = `memcached: {enabled: false}
resources: {limits: {memory: 512Mi}}
config:
  replicas: 1
  max-value: 16m
  writers: several
  pools:
    a: {servers: [a1, a2, a3]}
    b: {servers: [b1, b2, b3]}
    c: {servers: [c1, c2, c3]}
`

func TestEveryWrongConfigurationIsRefusedBeforeAnythingIsDeployed(t *testing.T) {
	const (
		routes = "  routes: [{default: a}]\n"
		begin  = "start: 2026-12-01T10:00:00Z"
		always = begin + ", end: 2026-12-02T10:00:00Z"
	)
	pool := func(name, options string) string {
		return strings.Replace(pools, name+": {", name+": {"+options+", ", 1)
	}
	for name, wrong := range map[string]struct{ values, message string }{
		"no route":           {pools, "no default pool"},
		"a route to no pool": {pools + "  routes: [{default: d}]\n", `the default pool "d" is unknown`},
		"a prefix twice": {pools +
			"  routes: [{prefix: x, pool: b}, {prefix: x, pool: c}, {default: a}]\n", `prefix "x" is given twice`},
		"reads from no pool": {
			pools + "  routes: [{default: a, reads: d}]\n",
			`the pool "d" for reads is unknown`,
		},
		"a stripped pool with two": {
			pools +
				"  routes: [{prefix: x, pool: b, strip: true}, {prefix: z, pool: b}, {default: a}]\n",
			"two keys could become one",
		},
		"a server in two pools": {
			strings.Replace(pools, "b1", "a1", 1) + routes,
			`server "a1" is in pool "a" and in pool "b"`,
		},
		"more replicas than servers": {pool("b", "replicas: 4") + routes, "is more than there are servers (3)"},
		"a quorum of one":            {pool("c", "ack: quorum") + routes, "needs two replicas or more"},
		"a ring without weights": {
			strings.Replace(pool("a", "ring: libmemcached"), "a1", "a1*2", 1) + routes,
			"weight",
		},
		"an unknown option in a pool": {
			pool("a", "replica: 2") + routes,
			"additional properties 'replica' not allowed",
		},
		"a migration to no pool": {
			pools + routes + "  migrations: [{from: a, to: d, " + always + "}]\n",
			`the pool "d" is unknown`,
		},
		"a migration of one writer": {pool("b", "writers: auto") + routes + "  migrations: [{from: a, to: b, " +
			always + "}]\n", "accepted: writers several in both pools"},
		"a migration without an end": {
			pools + routes + "  migrations: [{from: a, to: b, " + begin + "}]\n",
			`has no key "end"`,
		},
		"a migration that is too short": {pools + routes + "  migrations: [{from: a, to: b, " + begin +
			", end: 2026-12-01T10:00:20Z}]\n", "accepted: an end at least"},
		"two migrations of a pool": {pools + routes + "  migrations: [{from: a, to: b, " + always +
			"}, {from: a, to: c, " + always + "}]\n", "overlaps with the migration"},
		"a migration to a shadow": {
			pools + routes +
				"  shadows: [{of: a, to: b, share: 1}]\n  migrations: [{from: a, to: b, " + always + "}]\n",
			`pool "b" is a shadow`,
		},
		"a warm-up of no server": {pool("c", "replicas: 2") + routes +
			"  migrations: [{pool: c, cold: [c9], within: 0.01, " + begin + "}]\n", `has no server "c9"`},
		"a gutter that is no pool": {
			pool("a", "gutter: d, gutter-ttl: 60s") + routes,
			`has the gutter "d", which is not a pool`,
		},
		"a gutter of itself": {
			pool("a", "gutter: a, gutter-ttl: 60s") + routes,
			"which is this pool itself",
		},
		"a gutter for too few servers": {strings.Replace(pool("a", "gutter: b, gutter-ttl: 60s"), "a1, a2, a3", "a1",
			1) + routes, "too few servers"},
		"a shadow with a route": {
			pools + routes + "  shadows: [{of: b, to: a, share: 1}]\n",
			`pool "a" has a route`,
		},
		"a shadow of more than all": {
			pools + routes + "  shadows: [{of: a, to: b, share: 1.5}]\n",
			"/config/shadows/0/share",
		},
		"two shadows of a pool": {pools + routes +
			"  shadows: [{of: a, to: b, share: 1}, {of: a, to: c, share: 1}]\n", "has two shadows"},
		"large values with a shadow": {pool("a", "large-values: 8m") + routes +
			"  shadows: [{of: a, to: b, share: 1}]\n", "not possible, because the pool has a shadow"},
		"large values with a gutter": {
			pool("a", "large-values: 8m, gutter: b, gutter-ttl: 60s") + routes,
			"not possible, because the pool has a gutter",
		},
		"larger values than accepted": {pool("a", "large-values: 32m") + routes, "is more than max-value"},
		"too many chunks": {strings.NewReplacer("max-value: 16m", "max-value: 1g", "512Mi", "4Gi").
			Replace(pool("a", "item-size: 16k, large-values: 1g")) + routes, "accepted: "},
		"one writer in a pool": {
			pool("a", "writers: one, replicas: 2") + routes,
			"config.pools.a.writers is one and there can be several pods",
		},
		"one writer beside a pool": {strings.Replace(pool("b", "replicas: 2"), "writers: several", "writers: one",
			1) + routes, "config.pools.b.writers is one and there can be several pods"},
		"one writer in the environment": {"extraEnv: [{name: MCMW_WRITERS, value: one}]\n", "use config.writers"},
		"an item above half the memory": {
			"config: {max-value: 64m}\nresources: {limits: {memory: 512Mi}}\n",
			"config.max-value is 67108864 bytes and memcached.memoryMiB is 64",
		},
		"a chunk above half the memory": {"config: {max-value: 64m, large-values: 64m, item-size: 40m}\nresources: " +
			"{limits: {memory: 512Mi}}\n", "config.item-size is 41943040 bytes and memcached.memoryMiB is 64"},
		"a chunk above the item": {"config: {max-value: 16m, large-values: 16m, item-size: 2m}\nmemcached: " +
			"{maxItemSize: 1m}\n", "expected memcached.maxItemSize of at least that"},
		"an item that is too small": {"memcached: {maxItemSize: 1k}\n", "memcached accepts 512k to 1024m"},
		"the port of the clients":   {"adminPort: 11311\n", "adminPort is 11311"},
		"a budget above all": {
			"podDisruptionBudget: {maxUnavailable: 101%}\n",
			"'101%' does not match pattern",
		},
		"too little memory": {
			"resources: {limits: {memory: 48Mi}}\n",
			"resources.limits.memory is 48Mi: mcmw would be killed; expected at least 66Mi",
		},
		"an old memcached": {
			"memcached: {image: {tag: 1.6.18-alpine}}\n",
			"expected such a tag, replicas=1 without autoscaling, or config.replicas=1",
		},
		"servers that can't be reached": {
			"memcached: {enabled: false}\nservers: [x]\nnetworkPolicy: {enabled: true}\n",
			"mcmw could not connect to your servers",
		},
	} {
		t.Run(name, func(t *testing.T) {
			args := []string{"--values", valuesFile(t, wrong.values)}
			if _, stderr, err := helms["v4"].template(t, chartDir, args...); err != nil {
				require.Contains(t, stderr, wrong.message)
				return
			}
			output, err := runCheck(t, render(t, helms["v4"], args...))
			require.Error(t, err, "deployed")
			require.Contains(t, output, wrong.message)
		})
	}
}

func TestAnOldMemcachedIsAcceptedWhereOneWriterOrOneCopySuffices(t *testing.T) {
	for _, more := range []string{"replicas=1", "config.replicas=1"} {
		render(t, helms["v4"], "--set", "memcached.image.tag=1.6.18,"+more)
	}
	render(t, helms["v4"], "--set-string", "memcached.image.tag=latest")
}
