package chart

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"mcmw/internal/config"
	"mcmw/internal/discover"
	"mcmw/internal/follow"
	"mcmw/internal/mctest"
	"mcmw/internal/middleware"
	"mcmw/internal/route"
	"mcmw/internal/shadow"
)

// mcmwConfig returns the configuration that mcmw reads in its pod: from the environment, and from mounted files.
func mcmwConfig(t *testing.T, o *objects) (*config.Config, error) {
	t.Helper()
	p, c := o.proxy(t)
	root := t.TempDir()
	ca := mctest.NewCA(t)
	write := func(path, text string) {
		path = filepath.Join(root, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o777))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	volumes := map[string]corev1.Volume{}
	for _, v := range p.spec.Volumes {
		volumes[v.Name] = v
	}
	for _, m := range c.VolumeMounts {
		switch v := volumes[m.Name]; {
		case v.ConfigMap != nil:
			for key, text := range named[*corev1.ConfigMap](t, o, v.ConfigMap.Name).Data {
				write(filepath.Join(m.MountPath, key), text)
			}
		case v.Secret != nil && v.Secret.Items != nil:
			for _, item := range v.Secret.Items {
				write(filepath.Join(m.MountPath, item.Path), "user:password\n")
			}
		case v.Secret != nil: // as cert-manager fills Secrets of type kubernetes.io/tls
			cert, key := ca.Issue("mcmw")
			for name, from := range map[string]string{"tls.crt": cert, "tls.key": key, "ca.crt": ca.File} {
				text, err := os.ReadFile(from)
				require.NoError(t, err)
				write(filepath.Join(m.MountPath, name), string(text))
			}
		}
	}
	var environ []string
	for name, value := range environment(c) {
		if strings.HasPrefix(value, "/etc/mcmw/") {
			value = filepath.Join(root, value)
		}
		environ = append(environ, name+"="+value)
	}
	return config.Load(config.Sources{
		Flags: config.AddFlags(pflag.NewFlagSet("mcmw", pflag.ContinueOnError)),
		Env:   environ,
	})
}

func TestMcmwAcceptsWhatTheChartConfigures(t *testing.T) {
	forEach(t, func(t *testing.T, o *objects) {
		c, err := mcmwConfig(t, o)
		require.NoError(t, err)
		p, container := o.proxy(t)
		assert.Equal(t, []string{":11311"}, c.Listen)
		assert.NotEmpty(t, c.AllLookups().Specs)
		// The grace period of the kubelet is sufficient.
		sleep := int64(0)
		if container.Lifecycle != nil {
			sleep = container.Lifecycle.PreStop.Sleep.Seconds
		}
		assert.Greater(t, *p.spec.TerminationGracePeriodSeconds, sleep+int64(c.DrainTimeout.Seconds()))
	})
}

func TestOptionsInTheValuesReachMcmw(t *testing.T) {
	o := render(t, helms["v4"], "--values", "testdata/everything.yaml")
	c, err := mcmwConfig(t, o)
	require.NoError(t, err)
	require.Equal(t, 2, c.Placement.Replicas)
	require.Equal(t, 64, c.Workers)
	require.True(t, c.Sharded)
	require.Equal(t, 2<<20, c.Limits.MaxValue)
	require.Equal(t, 1<<20, c.MaxConnections, "Helm reads large numbers as floating point")
	require.Equal(t, "{}", c.Placement.HashTag)
	require.Equal(t, 10*time.Minute, c.MaxAge, "other options must not change this default of the chart")

	o = render(t, helms["v4"], "--values", "testdata/daemonset.yaml")
	_, container := o.proxy(t)
	require.NotContains(t, environment(container), "GOMAXPROCS", "procs is set instead")
	require.NotContains(t, environment(container), "GOMEMLIMIT", "there is no memory limit")
}

// poolsOf returns the servers of every pool of a configuration as mcmw has them, by the pool's name.
func poolsOf(t *testing.T, c *config.Config) (servers map[string][]string, o middleware.Options) {
	t.Helper()
	servers = map[string][]string{}
	var all []route.Server
	for _, s := range c.AllLookups().Specs {
		servers[s.Server.Pool] = append(servers[s.Server.Pool], s.Lookup.String()+s.Server.Addr)
		all = append(all, s.Server)
	}
	return servers, c.With(all)
}

func TestThePoolsOfTheChartAreThoseOfMcmw(t *testing.T) {
	const found = "k8s+_memcache._tcp.mcmw-memcached"
	const domain = ".cache.svc.cluster.local"
	eachHelm(t, "", func(t *testing.T, h *helm) {
		o := render(t, h, "--values", "testdata/pools.yaml")
		c, err := mcmwConfig(t, o)
		require.NoError(t, err)
		servers, options := poolsOf(t, c)
		require.Equal(t, map[string][]string{
			"memcached": {found + domain}, "spare": {found + "-spare" + domain},
			"large": {found + "-large" + domain}, "own": {"10.0.0.1:11211"},
			"far": {"10.0.0.2:11211"},
		}, servers)
		require.Equal(t, "memcached", options.Routes.Default)
		require.Equal(t, ":", options.Prefixes)
		require.Len(t, options.Follows, 1)
		follows := options.Follows[0]
		require.Equal(t, []string{"memcached", "far"}, []string{follows.Of, follows.To.Name})
		require.Equal(t, follow.Options{What: follow.Deletes, Flush: true, Memory: 4 << 20}, follows.Options)
		for _, p := range options.Pools {
			require.Equal(t, p.Name == "memcached", p.Options.Gutter == "spare", p.Name)
			require.Equal(t, p.Name == "large", p.Large.Limit > 0, p.Name)
		}
		set := func(name string) appsv1.StatefulSetSpec { return named[*appsv1.StatefulSet](t, o, name).Spec }
		main, spare, large := set("mcmw-memcached"), set("mcmw-memcached-spare"), set("mcmw-memcached-large")
		require.Equal(t, []int32{3, 2, 1}, []int32{*main.Replicas, *spare.Replicas, *large.Replicas})
		for memory, of := range map[string]appsv1.StatefulSetSpec{"64": main, "100": spare} {
			require.Contains(t, of.Template.Spec.Containers[0].Args, "--memory-limit="+memory)
		}
		require.Contains(t, main.Template.Spec.Containers[0].Args, "--max-item-size=16777216")
		require.NotContains(t, strings.Join(large.Template.Spec.Containers[0].Args, " "), "--max-item-size")
		require.Equal(t, map[string]string{"pool": "spare"}, spare.Template.Spec.NodeSelector)
		require.Equal(t, map[string]string{"disk": "ssd"}, main.Template.Spec.NodeSelector)
		require.Empty(t, main.Template.Spec.TopologySpreadConstraints)
		require.Len(t, spare.Template.Spec.TopologySpreadConstraints, 2)
		require.Len(t, of[*policyv1.PodDisruptionBudget](o), 3, "of mcmw, spare and large")

		// Without routes the first pool has all keys.
		c, err = mcmwConfig(t, render(t, h, "--set", "memcached.pools[0].name=a,memcached.pools[1].name=b,"+
			"config.pools.a.gutter=b"))
		require.NoError(t, err)
		_, options = poolsOf(t, c)
		require.Equal(t, route.Routes{Default: "a"}, options.Routes)
		require.Equal(t, middleware.WritersSeveral, c.Writers)
	})
}

func TestPoolsRoutesAndShadowsInTheValuesReachMcmw(t *testing.T) {
	c, err := mcmwConfig(t, render(t, helms["v4"], "--set",
		"memcached.enabled=false,config.replicas=1,config.pools.a.servers={x,y},config.pools.a.replicas=2,"+
			"config.pools.b.servers={z},"+
			"config.pools.c.servers={t},"+
			"config.routes[0].prefix=s:,config.routes[0].pool=b,config.routes[1].default=a,"+
			"config.pools.d.servers={u},config.pools.e.servers={v},config.routes[2].prefix=r:,config.routes[2].pool=d,"+
			"config.routes[2].reads=e",
		"--set", "config.writers=several", "--set-json", `config.shadows=[{"of":"a","to":"c","share":0.25}]`,
		"--set-json",
		`config.migrations=[{"from":"a","to":"b","copy":"missed","within":0.02,"start":"2026-12-01T10:00:00Z","back":"2026-12-02T10:00:00Z"}]`))
	require.NoError(t, err)
	_, o := poolsOf(t, c)
	require.Equal(t, route.Routes{Prefixes: []route.Prefix{
		{Prefix: "s:", Pool: "b"},
		{Prefix: "r:", Pool: "d", Reads: "e"},
	}, Default: "a"}, o.Routes)
	require.Equal(t, 2, o.Pools[0].Options.Replicas)
	require.Equal(t, 1, o.Pools[1].Options.Replicas)
	require.Equal(t, "z", o.Pools[1].Servers[0].Name)
	require.Equal(t, []string{"a", "c", "t"},
		[]string{o.Shadows[0].Of, o.Shadows[0].To.Name, o.Shadows[0].To.Servers[0].Name})
	require.Equal(t, shadow.Options{Share: 0.25, Compare: true}, o.Shadows[0].Options)
	begin := time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC)
	require.Equal(t, []middleware.Migration{{
		From: "a", To: "b", Start: begin, Back: begin.AddDate(0, 0, 1),
		WarmsUp: true, Within: 0.02,
	}}, o.Migrations)
}

func TestSeveralPodsOfMcmwHaveSeveralWriters(t *testing.T) {
	for set, want := range map[string]middleware.Writers{
		"replicas=2":                           middleware.WritersSeveral,
		"replicas=1":                           middleware.WritersAuto,
		"replicas=1,config.writers=one":        middleware.WritersOne,
		"config.writers=one,config.replicas=1": middleware.WritersOne,
		"kind=DaemonSet":                       middleware.WritersSeveral,
		"memcached.enabled=false,servers={a}":  middleware.WritersAuto,
		"replicas=1,autoscaling.enabled=true,autoscaling.targetCPUUtilization=50": middleware.WritersSeveral,
	} {
		c, err := mcmwConfig(t, render(t, helms["v4"], "--set", set))
		require.NoError(t, err, set)
		assert.Equal(t, want, c.Writers, set)
	}
}

func TestThePodsZoneIsItsLabelOrTheOneGiven(t *testing.T) {
	zone := func(set string) *corev1.EnvVar {
		_, c := render(t, helms["v4"], "--set", set).proxy(t)
		if i := slices.IndexFunc(c.Env, func(v corev1.EnvVar) bool { return v.Name == "MCMW_ZONE" }); i >= 0 {
			return &c.Env[i]
		}
		return nil
	}
	require.Equal(t, "metadata.labels['topology.kubernetes.io/zone']",
		zone("config.read=nearest").ValueFrom.FieldRef.FieldPath)
	require.Equal(t, &corev1.EnvVar{Name: "MCMW_ZONE", Value: "east"}, zone("config.read=nearest,config.zone=east"))
	require.NotNil(t, zone("memcached.enabled=false,config.pools.a.servers={a},config.pools.a.read=nearest,"+
		"config.routes[0].default=a"))
	require.Nil(t, zone("config.read=primary"))
}

func TestMemoryAndProcessorsDeriveFromTheLimits(t *testing.T) {
	for limit, want := range map[string]struct{ goMemLimit, clientMemory int64 }{
		"512Mi":      {483183820, 64 << 20},
		"1.5Gi":      {1449551462, 192 << 20},
		"1G":         {900000000, 125000000},
		"128M":       {115200000, 16000000},
		"1000000000": {900000000, 125000000},
	} {
		_, c := render(t, helms["v4"], "--set-string", "resources.limits.memory="+limit, "--set",
			"resources.limits.cpu=1500m").proxy(t)
		env := environment(c)
		require.Equal(t, strconv.FormatInt(want.goMemLimit, 10), env["GOMEMLIMIT"], limit)
		require.Equal(t, strconv.FormatInt(want.clientMemory, 10), env["MCMW_CLIENT_MEMORY"], limit)
		quantity := resource.MustParse(limit)
		require.InDelta(t, 0.9*quantity.AsApproximateFloat64(), float64(want.goMemLimit), 1)
		for _, e := range c.Env {
			if e.Name == "GOMAXPROCS" {
				require.Equal(t, "limits.cpu", e.ValueFrom.ResourceFieldRef.Resource)
			}
		}
		require.Contains(t, env, "GOMAXPROCS")
	}
}

func TestAVariableOfTheUserOverridesTheCharts(t *testing.T) {
	_, c := render(t, helms["v4"], "--values", "testdata/everything.yaml").proxy(t)
	require.Equal(t, "1GiB", environment(c)["GOMEMLIMIT"])
}

func TestServersHaveStableNames(t *testing.T) {
	o := render(t, helms["v4"])
	c, err := mcmwConfig(t, o)
	require.NoError(t, err)
	require.Len(t, c.Specs, 1)
	service := named[*corev1.Service](t, o, "mcmw-memcached")
	require.Equal(t, discover.Endpoints, c.Specs[0].Lookup)
	require.Equal(t, "_memcache._tcp.mcmw-memcached.cache.svc.cluster.local", c.Specs[0].Server.Addr)
	require.Equal(t, "memcache", service.Spec.Ports[0].Name, "the name that is looked up begins with this port")
	require.True(t, service.Spec.PublishNotReadyAddresses, "a server that is briefly not ready keeps its record")
}

func TestPodsOfMemcachedAreReadyWhenMcmwSaysThatTheyAreRefilledUnlessItCannotOrIsScaledToZero(t *testing.T) {
	keda := "keda.enabled=true,keda.prometheusAddress=http://p:9090,keda.minReplicas="
	for set, gated := range map[string]bool{
		"replicas=2": true, "memcached.watch=false": false, "serviceAccount.create=false": false,
		"serviceAccount.create=false,serviceAccount.name=mine": true, keda + "1": true, keda + "0": false,
		"config.refill-rate=0": true, "config.replicas=1": true, // mcmw itself knows that nothing is to be refilled
	} {
		var gates []corev1.PodReadinessGate
		if gated {
			gates = []corev1.PodReadinessGate{{ConditionType: discover.Gate}}
		}
		o := render(t, helms["v4"], "--set", set)
		servers := named[*appsv1.StatefulSet](t, o, "mcmw-memcached").Spec.Template.Spec
		require.Equal(t, gates, servers.ReadinessGates, set)
		require.Empty(t, named[*appsv1.Deployment](t, o, "mcmw").Spec.Template.Spec.ReadinessGates, set)
	}
}

func TestMcmwMayOnlyWatchItsServersReadTheirStatefulSetAndPatchTheStatusOfPods(t *testing.T) {
	forEach(t, func(t *testing.T, o *objects) {
		c, err := mcmwConfig(t, o)
		require.NoError(t, err)
		p, _ := o.proxy(t)
		roles, bindings := of[*rbacv1.Role](o), of[*rbacv1.RoleBinding](o)
		var watched []string // the Service and the StatefulSet have the same name
		for _, s := range c.AllLookups().Specs {
			if s.Lookup == discover.Endpoints {
				watched = append(watched, strings.Split(s.Server.Addr, ".")[2])
			}
		}
		if watched == nil {
			require.Empty(t, roles)
			require.Empty(t, bindings)
			return
		}
		require.Len(t, roles, 1)
		require.Len(t, bindings, 1)
		require.ElementsMatch(t, watched, roles[0].Rules[1].ResourceNames)
		rules := []rbacv1.PolicyRule{
			{
				APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"},
				Verbs: []string{"get", "list", "watch"},
			},
			{
				APIGroups: []string{"apps"}, Resources: []string{"statefulsets"},
				ResourceNames: roles[0].Rules[1].ResourceNames, Verbs: []string{"get"},
			},
			{APIGroups: []string{""}, Resources: []string{"pods/status"}, Verbs: []string{"get", "patch"}},
		}
		require.Equal(t, rules, roles[0].Rules)
		require.Equal(t, rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: roles[0].Name},
			bindings[0].RoleRef)
		require.Equal(t, []rbacv1.Subject{{
			Kind: "ServiceAccount", Name: p.spec.ServiceAccountName,
			Namespace: namespace,
		}}, bindings[0].Subjects)
		for _, n := range of[*networkingv1.NetworkPolicy](o) {
			if n.Name == p.owner.GetName() {
				require.Contains(t, toPorts(n.Spec.Egress), "6443")
			}
		}
	})
	for _, set := range []string{"memcached.watch=false", "serviceAccount.create=false"} {
		o := render(t, helms["v4"], "--set", set)
		c, err := mcmwConfig(t, o)
		require.NoError(t, err)
		require.Equal(t, discover.Service, c.Specs[0].Lookup, set)
		require.Empty(t, of[*rbacv1.Role](o), set)
	}
	for servers, watched := range map[string]bool{
		"servers={a,k8s+_memcache._tcp.m.cache.svc}":                                  true,
		"config.replicas=1,config.pools.a.servers={k8s+_memcache._tcp.m.cache.svc}":   true,
		"config.replicas=1,config.pools.a.servers={srv+_memcache._tcp.m.cache.svc}":   false,
		"serviceAccount.create=false,servers={k8s+_memcache._tcp.m.cache.svc}":        false,
		"config.replicas=1,config.pools.k8s.servers={a},config.routes[0].default=k8s": false,
	} {
		o := render(t, helms["v4"], "--set", "memcached.enabled=false,"+servers)
		p, _ := o.proxy(t)
		require.Equal(t, watched, len(of[*rbacv1.Role](o)) == 1, servers)
		require.Equal(t, watched, *p.spec.AutomountServiceAccountToken, servers)
	}
}

// Until it is looked up, nobody knows how many servers a name has.
func TestOneNameCanStandForAsManyServersAsThereAreReplicas(t *testing.T) {
	for l := discover.Addresses; l <= discover.Nodes; l++ {
		name := "m.cache.svc:11211"
		if l == discover.Service || l == discover.Endpoints {
			name = "_memcache._tcp.m.cache.svc"
		}
		eachHelm(t, l.String(), func(t *testing.T, h *helm) {
			c, err := mcmwConfig(t, render(t, h, "--set",
				"memcached.enabled=false,config.replicas=2,servers={"+l.String()+name+"}"))
			require.NoError(t, err)
			require.Equal(t, l, c.Specs[0].Lookup)
		})
	}
}

// toPorts returns the ports that rules allow everywhere.
func toPorts(rules []networkingv1.NetworkPolicyEgressRule) (ports []string) {
	for _, r := range rules {
		if len(r.To) == 0 {
			for _, p := range r.Ports {
				ports = append(ports, p.Port.String())
			}
		}
	}
	return ports
}
