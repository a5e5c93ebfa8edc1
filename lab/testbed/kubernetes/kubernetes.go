package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"mcmw/lab/agent"
	"mcmw/lab/experiment"
	"mcmw/lab/record"
	"mcmw/lab/testbed"
	"mcmw/lab/testbed/remote"
)

const (
	// mcmwlab is the path of mcmwlab in the load pods.
	mcmwlab = "/mcmwlab"
	// releaseOfLoad and releaseOfPoint are the names of the two installations of the chart.
	releaseOfLoad, releaseOfPoint = "load", "point"
	// installTimeout bounds an installation: images may have to be pulled, and nodes made.
	installTimeout = 10 * time.Minute
	// removeTimeout bounds the removal of the namespace.
	removeTimeout = 3 * time.Minute
	// listenPort and serverPort are the ports of the chart's mcmw and memcached.
	listenPort, serverPort = 11311, 11211
	// adminPort is the port of mcmw's metrics.
	adminPort = 9150
)

type bed struct {
	tools     tools
	k         experiment.Kubernetes
	namespace string
	values    tree           // of the chart: the standard ones and those of the files
	load      tree           // values of the load pods' chart
	loads     []testbed.Host // load pods
	made      bool           // whether the lab has made the namespace
	unusable  error          // why the load pods could not be made, once made is true
}

// elsewhere are the settings that the chart does not support.
var elsewhere = []string{
	experiment.Server, experiment.ServerPersistence, experiment.GroupSize, experiment.ServerPinning,
	experiment.ServerCPUs,
	experiment.MiddlewareCPUs, experiment.LoadCPUs, experiment.ServerDelay, experiment.Profile,
}

// New returns a testbed on a cluster for the points of an experiment. It makes nothing in the cluster before it is
// used.
func New(e *experiment.Experiment) (testbed.Testbed, error) {
	if err := findTools(); err != nil {
		return nil, err
	}
	b := &bed{tools: tools{e.Kubernetes.Context}, k: e.Kubernetes, namespace: e.Kubernetes.Namespace}
	for _, chart := range []string{b.k.Chart, b.loadChart()} {
		if _, err := os.Stat(filepath.Join(chart, "Chart.yaml")); err != nil {
			return nil,
				fmt.Errorf("%s is not a chart: %w; run this in mcmw's source tree, or set the chart's path with the "+
					"testbed's key chart", chart, err)
		}
	}
	for _, p := range e.Points {
		for _, name := range elsewhere {
			if p.Values.Is(name) {
				return nil,
					fmt.Errorf("%s: %s: the testbed kubernetes does not support this setting; use the testbed local "+
						"or vm", name, p.Values[name])
			}
		}
		if p.Values.Int(experiment.Middlewares) > 0 &&
			strings.Contains(p.Values[experiment.MiddlewareFlags], "--stats-") {
			return nil,
				fmt.Errorf("middleware_flags %q: the testbed kubernetes sets the statistics log itself; leave out "+
					"--stats-*", p.Values[experiment.MiddlewareFlags])
		}
	}
	if b.namespace == "" {
		b.namespace = fmt.Sprintf("mcmwlab-%08x", rand.Uint32())
	}
	given, err := readValues(b.k.Values)
	b.load = loadValues(largest(e.Points, experiment.LoadProcesses), given)
	b.values = standardValues(largest(e.Points, experiment.ServerMemory)).with(given)
	return b, err
}

// loadChart returns the path of the load pods' chart, which is beside the other one.
func (b *bed) loadChart() string { return filepath.Clean(b.k.Chart) + "-load" }

// ensure makes the namespace and the load pods if it has not been called before. If it has failed with the namespace
// made, it returns that error again: without its load pods the testbed is of no use.
func (b *bed) ensure(ctx context.Context) error {
	if b.made {
		return b.unusable
	}
	owner, err := labOf(os.Getpid())
	if err != nil {
		return err
	}
	manifest := tree{"apiVersion": "v1", "kind": "Namespace", "metadata": tree{
		"name": b.namespace, "labels": tree{managedBy: "mcmwlab"}, "annotations": tree{ownerKey: owner},
	}}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	// Create rather than apply: an existing namespace belongs to someone else. It cannot be interrupted: the lab must
	// know whether it has made the namespace.
	if _, err := b.tools.kubectl(context.WithoutCancel(ctx), manifest.text(), "create", "--filename", "-"); err != nil {
		if strings.Contains(err.Error(), "AlreadyExists") {
			return fmt.Errorf("the namespace %s exists already; choose another name: the lab removes its namespace "+
				"at the end", b.namespace)
		}
		return fmt.Errorf("making the namespace %s: %w; expected kubectl's context to reach a cluster, and the right "+
			"to make namespaces", b.namespace, err)
	}
	b.made = true
	b.unusable = b.startLoads(ctx)
	return b.unusable
}

// startLoads installs the load pods and connects to them.
func (b *bed) startLoads(ctx context.Context) error {
	if err := b.install(ctx, releaseOfLoad, b.loadChart(), b.load); err != nil {
		return err
	}
	pods, err := b.pods(ctx, releaseOfLoad, "loadgen")
	if err != nil {
		return err
	}
	if len(pods) == 0 {
		return errors.New("there are no load pods; expected at least 1 for loadgen.replicas in the chart's values")
	}
	for _, p := range pods {
		l, err := b.connect(ctx, p)
		if err != nil {
			return err
		}
		b.loads = append(b.loads, l)
	}
	return nil
}

// install installs a release of a chart and returns when its pods are ready.
func (b *bed) install(ctx context.Context, release, chart string, values tree) error {
	if _, err := b.tools.helm(ctx, values.text(), "install", release, chart, "--namespace", b.namespace, "--wait",
		"--timeout", installTimeout.String(), "--values", "-"); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("installing the chart: %w\n%s", err, b.trouble(context.WithoutCancel(ctx), release))
	}
	return nil
}

// trouble returns what the cluster reports about the pods of a release.
func (b *bed) trouble(ctx context.Context, release string) string {
	pods, err := b.tools.kubectl(ctx, "", "--namespace", b.namespace, "get", "pods", "--selector",
		"app.kubernetes.io/instance="+release)
	if err != nil {
		return err.Error()
	}
	events, err := b.tools.kubectl(ctx, "", "--namespace", b.namespace, "get", "events", "--field-selector",
		"type=Warning",
		"--output", `jsonpath={range .items[*]}{.involvedObject.name}: {.message}{"\n"}{end}`)
	if err != nil {
		return err.Error()
	}
	return string(pods) + string(events)
}

// Describe reads the versions from the load pods, the chart and the cluster. The host is that of the first load pod.
func (b *bed) Describe(ctx context.Context) (d testbed.Description, err error) {
	if err := b.ensure(ctx); err != nil {
		return d, err
	}
	if d.Versions, err = b.images(ctx); err != nil {
		return d, err
	}
	for _, ask := range []struct {
		subject string
		args    []string
		take    func(text []byte) error
	}{
		{"mcmwlab", []string{"version"}, func(text []byte) error {
			d.Versions["mcmwlab"] = strings.TrimSpace(string(text))
			return nil
		}},
		{"host", agent.Task{Describe: true}.Args(), func(text []byte) error { return json.Unmarshal(text, &d.Host) }},
	} {
		text, err := testbed.Output(ctx, b.loads[0], testbed.Program{Name: ask.subject, Path: mcmwlab, Args: ask.args})
		if err == nil {
			err = ask.take(text)
		}
		if err != nil {
			return d, fmt.Errorf("reading the description of the load pod's %s: %w", ask.subject, err)
		}
	}
	text, err := b.tools.kubectl(ctx, "", "version", "--output", "json")
	if err != nil {
		return d, err
	}
	var version struct{ ServerVersion struct{ GitVersion string } }
	if err := json.Unmarshal(text, &version); err != nil {
		return d, fmt.Errorf("reading the version of the cluster: %w", err)
	}
	d.Versions["kubernetes"] = version.ServerVersion.GitVersion
	d.Shortfalls = []string{
		"the path was measured between two load pods, not between load and middleware",
		"processor times of the servers are not known",
	}
	if len(b.loads) < 2 {
		d.Shortfalls[0] = "the path was not measured: that needs two load pods"
	}
	return d, nil
}

// MeasurePath measures the path between the first two load pods: other pods have no program that answers. With one load
// pod it measures nothing.
func (b *bed) MeasurePath(ctx context.Context, bulk time.Duration) ([]record.Value, error) {
	if err := b.ensure(ctx); err != nil || len(b.loads) < 2 {
		return nil, err
	}
	p, err := testbed.MeasurePath(ctx, mcmwlab, b.loads[0], b.loads[1], bulk)
	if err != nil {
		return nil, err
	}
	return testbed.PathValues(record.SourcePath, p), nil
}

// Deploy installs the servers and middlewares of a point.
func (b *bed) Deploy(ctx context.Context, v experiment.Values) (testbed.Deployment, error) {
	if err := b.ensure(ctx); err != nil {
		return nil, err
	}
	d := &deployment{b: b}
	err := b.install(ctx, releaseOfPoint, b.k.Chart, b.values.with(pointValues(v)))
	if err == nil {
		d.Deployment, err = b.place(ctx, v)
	}
	if err != nil {
		return nil, errors.Join(err, b.uninstall())
	}
	return d, nil
}

// place follows the pods of the point and puts load on them.
func (b *bed) place(ctx context.Context, v experiment.Values) (testbed.Deployment, error) {
	follow := func(component, container, role string, port, wanted int) (members []testbed.Member, err error) {
		pods, err := b.pods(ctx, releaseOfPoint, component)
		if err == nil && len(pods) != wanted {
			err = fmt.Errorf("%d pods of the component %s run; expected %d", len(pods), component, wanted)
		}
		if err != nil {
			return nil, err
		}
		for i, p := range pods {
			name, log := role+strconv.Itoa(i), (*testbed.Log)(nil)
			if component == "proxy" {
				log = testbed.NewLog()
			} else {
				name = role + p.Metadata.Name
			}
			m, err := b.follow(p, container, name, port, log)
			if err != nil {
				return members, err
			}
			if component == "proxy" {
				m.Metrics = "http://" + net.JoinHostPort(p.Status.PodIP, strconv.Itoa(adminPort)) + "/metrics"
			}
			members = append(members, m)
		}
		return members, nil
	}
	servers, err := follow("memcached", "memcached", record.SourceServer, serverPort, v.Int(experiment.Servers))
	middlewares := []testbed.Member{}
	if err == nil {
		middlewares, err = follow("proxy", "mcmw", "middleware:", listenPort, v.Int(experiment.Middlewares))
	}
	if err != nil {
		for _, m := range slices.Concat(servers, middlewares) {
			m.Stop(syscall.SIGTERM)
		}
		return nil, err
	}
	return testbed.Placed(ctx, b.loads, mcmwlab, servers, middlewares)
}

// uninstall removes the point's servers and middlewares, also while the experiment is being ended.
func (b *bed) uninstall() error {
	_, err := b.tools.helm(context.Background(), "", "uninstall", releaseOfPoint, "--namespace", b.namespace,
		"--ignore-not-found", "--cascade", "foreground",
		"--wait", "--timeout", removeTimeout.String())
	return err
}

type deployment struct {
	testbed.Deployment
	b *bed
}

// Stop removes the pods. What cannot be removed now is removed with the namespace.
func (d *deployment) Stop() {
	d.Deployment.Stop()
	_ = d.b.uninstall()
}

// Close removes the namespace with everything in it.
func (b *bed) Close() error {
	for _, l := range b.loads {
		l.(*remote.Conn).Close()
	}
	if !b.made {
		return nil
	}
	return b.tools.removeNamespace(context.Background(), b.namespace)
}

// images returns the images that the chart runs, by the names of their containers.
func (b *bed) images(ctx context.Context) (map[string]string, error) {
	text, err := b.tools.helm(ctx, b.values.text(), "template", releaseOfPoint, b.k.Chart, "--namespace", b.namespace,
		"--values", "-")
	if err != nil {
		return nil, err
	}
	return readImages(text)
}
