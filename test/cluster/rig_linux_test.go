package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mcmw/test/cluster/node"
	"mcmw/test/history"
)

// patience only turns a hang into a failure: the machine may be busy.
const patience = 5 * time.Minute

var (
	// cluster is the cluster that all tests share; nil if there can be none.
	cluster *node.Cluster
	// impossible is why there can be no cluster.
	impossible error
	// program is the path of this module's command.
	program string
	// root is the folder of mcmw's source.
	root string
)

// TestMain brings the cluster up if there is none, and then takes it down at the end.
func TestMain(m *testing.M) {
	os.Exit(func() int {
		if impossible = node.Possible(); impossible != nil {
			return m.Run()
		}
		dir, err := os.MkdirTemp("", "mcmw-cluster-test-")
		if err != nil {
			return fatal(err)
		}
		defer os.RemoveAll(dir)
		program = filepath.Join(dir, "cluster")
		if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
			return fatal(fmt.Errorf("%w: %s", err, out))
		}
		if root, err = node.ModuleRoot(); err != nil {
			return fatal(err)
		}
		if cluster, err = node.New(node.DefaultName); err != nil {
			return fatal(err)
		}
		if cluster.Pid() == 0 {
			up := exec.Command(program, "up")
			up.Stdout, up.Stderr = os.Stderr, os.Stderr
			if err := up.Run(); err != nil {
				return fatal(err)
			}
			defer func() {
				if err := cluster.Down(context.Background()); err != nil {
					fatal(err)
				}
			}()
		} else if err := loadImages(context.Background(), cluster, os.Stderr); err != nil {
			return fatal(err)
		}
		return m.Run()
	}())
}

func fatal(err error) int {
	fmt.Fprintln(os.Stderr, "cluster for tests:", err)
	return 1
}

// needCluster skips the test if there can be no cluster.
func needCluster(t *testing.T) {
	t.Helper()
	if impossible != nil {
		t.Skip(impossible)
	}
}

// output runs a program in the cluster and returns what it writes to standard output.
func output(ctx context.Context, input io.Reader, name string, args ...string) (string, error) {
	cmd, err := cluster.Command(ctx, name, args...)
	if err != nil {
		return "", err
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = input, &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, stderr.String())
	}
	return stdout.String(), nil
}

// release is one installation of the chart, in its own namespace.
type release struct {
	t         *testing.T
	namespace string
}

// install installs the chart as "mcmw" with the values of values.yaml and further arguments of helm, and a load pod. It
// waits until all pods are ready, and removes everything when the test ends.
func install(t *testing.T, namespace string, args ...string) *release {
	t.Helper()
	r := prepare(t, namespace)
	r.helm(append([]string{
		"install", "mcmw", chart(), "--values", filepath.Join(root, "test/cluster/values.yaml"),
		"--wait", "--timeout", "3m",
	}, args...)...)
	r.installLoad()
	// A pod is ready a moment before the node's rules for the Service include it.
	eventually(t, "the service answers", func() error {
		_, err := r.tryKubectl("exec", "mcmw-load-0", "--", "/mcmwlab", "load", "--quiet", "--server", "mcmw",
			"--port", "11311", "--clients", "1", "--requests", "1")
		return err
	})
	// A pod starts with the servers that are in the DNS by then.
	servers, err := strconv.Atoi(r.kubectl("get", "statefulset/mcmw-memcached", "--output",
		"jsonpath={.spec.replicas}"))
	require.NoError(t, err)
	r.awaitServers(servers)
	return r
}

// installLoad installs a load pod.
func (r *release) installLoad() {
	r.t.Helper()
	r.helm("install", "mcmw-load", chart()+"-load", "--wait", "--timeout", "3m", "--set",
		"generator=mcmwlab,image.tag="+tag+",image.pullPolicy=Never,resources.requests.cpu=10m,"+
			"resources.requests.memory=32Mi,resources.limits.memory=256Mi")
}

func chart() string { return filepath.Join(root, "deploy/helm/mcmw") }

// prepare creates a namespace, which is removed when the test ends. If the test failed, its objects are shown first.
func prepare(t *testing.T, namespace string) *release {
	t.Helper()
	needCluster(t)
	r := &release{t: t, namespace: namespace}
	r.kubectl("create", "namespace", namespace)
	began := time.Now()
	t.Cleanup(func() {
		t.Logf("took %.1f s", time.Since(began).Seconds())
		if t.Failed() {
			for _, args := range [][]string{
				{"get", "pods", "--output", "wide"},
				{"get", "events", "--sort-by=.lastTimestamp"},
				{"logs", "--selector", "app.kubernetes.io/component=proxy", "--prefix", "--tail=40"},
			} {
				out, err := r.tryKubectl(args...)
				t.Logf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
			}
		}
		_, err := output(context.Background(), nil, "kubectl", "delete", "namespace", namespace, "--wait=false")
		require.NoError(t, err)
		// Without this the pods would take their time to terminate.
		_, err = r.tryKubectl("delete", "pods", "--all", "--grace-period=0", "--force", "--wait=false")
		require.NoError(t, err)
	})
	return r
}

func (r *release) tryHelm(args ...string) (string, error) {
	return output(r.t.Context(), nil, "helm", append([]string{"--namespace", r.namespace}, args...)...)
}

func (r *release) helm(args ...string) string {
	r.t.Helper()
	out, err := r.tryHelm(args...)
	require.NoError(r.t, err)
	return out
}

func (r *release) tryKubectl(args ...string) (string, error) {
	return output(context.Background(), nil, "kubectl", append([]string{"--namespace", r.namespace}, args...)...)
}

func (r *release) kubectl(args ...string) string {
	r.t.Helper()
	out, err := r.tryKubectl(args...)
	require.NoError(r.t, err)
	return out
}

// apply creates the objects of a manifest.
func (r *release) apply(manifest string) {
	r.t.Helper()
	_, err := output(r.t.Context(), strings.NewReader(manifest), "kubectl", "--namespace", r.namespace, "apply",
		"--filename", "-")
	require.NoError(r.t, err)
}

// pod has the fields of a pod that the tests use.
type pod struct {
	Metadata struct {
		Name, UID         string
		DeletionTimestamp string
	}
	Spec   struct{ NodeName string }
	Status struct {
		Phase, PodIP string
		Conditions   []struct{ Type, Status string }
	}
}

func (p pod) ready() bool {
	for _, c := range p.Status.Conditions {
		if c.Type == "Ready" {
			return c.Status == "True" && p.Metadata.DeletionTimestamp == ""
		}
	}
	return false
}

// pods returns the pods of a component: proxy, memcached, loadgen.
func (r *release) pods(component string) []pod {
	r.t.Helper()
	var list struct{ Items []pod }
	out := r.kubectl("get", "pods", "--selector", "app.kubernetes.io/component="+component, "--output", "json")
	require.NoError(r.t, json.Unmarshal([]byte(out), &list))
	return list.Items
}

// eventually calls try twice a second until it succeeds.
func eventually(t *testing.T, what string, try func() error) {
	t.Helper()
	retry := time.NewTicker(500 * time.Millisecond)
	defer retry.Stop()
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		err := try()
		if err == nil {
			return
		}
		select {
		case <-t.Context().Done():
			return
		case <-late.C:
			require.NoError(t, err, "%s: not within %v", what, patience)
		case <-retry.C:
		}
	}
}

// metrics returns the samples of a pod of mcmw as Prometheus would scrape them: value by name with labels.
func (r *release) metrics(pod string) (map[string]string, error) {
	out, err := r.tryKubectl("get", "--raw",
		fmt.Sprintf("/api/v1/namespaces/%s/pods/%s:9150/proxy/metrics", r.namespace, pod))
	if err != nil {
		return nil, err
	}
	samples := map[string]string{}
	for line := range strings.Lines(out) {
		if at := strings.LastIndexByte(strings.TrimSpace(line), ' '); at > 0 && line[0] != '#' {
			samples[line[:at]] = strings.TrimSpace(line[at:])
		}
	}
	return samples, nil
}

// verification is a load on the Service from a load pod, every answer of which is checked.
type verification struct {
	r     *release
	end   io.Closer
	ended chan error // gets one
	out   bytes.Buffer
}

// pool makes each client that shares its keys with others hold eight connections, each to a pod that the Service
// chooses, and use a random one.
const pool = "mcmw:11311,mcmw:11311,mcmw:11311,mcmw:11311"

// verify starts a load by `kubectl exec` in a load pod, with further arguments of `mcmwlab verify`, and waits until it
// is answered.
func (r *release) verify(args ...string) *verification {
	r.t.Helper()
	v := &verification{r: r, ended: make(chan error, 1)}
	input, end := io.Pipe()
	v.end = end
	cmd, err := cluster.Command(context.Background(), "kubectl", append([]string{
		"--namespace", r.namespace, "exec", "--stdin", "mcmw-load-0", "--",
		"/mcmwlab", "verify", "--target", pool, "--until-eof", "--test-time", "10m", "--json-out-file", "-",
	}, args...)...)
	require.NoError(r.t, err)
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = input, &v.out, &stderr
	require.NoError(r.t, cmd.Start())
	go func() {
		err := cmd.Wait()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, &stderr)
		}
		v.ended <- err
	}()
	var served *int
	eventually(r.t, "the load is answered", func() error {
		select {
		case err := <-v.ended:
			v.ended <- err
			require.FailNow(r.t, "the load has ended", "%v: %s", err, &v.out)
		default:
		}
		now, err := r.served()
		if err != nil {
			return err
		}
		if served == nil {
			served = &now
		}
		if now < *served+400 {
			return fmt.Errorf("%d requests were served, then %d", *served, now)
		}
		return nil
	})
	return v
}

// served returns the number of requests that all pods of mcmw have answered.
func (r *release) served() (n int, err error) {
	for _, p := range r.pods("proxy") {
		if !p.ready() {
			continue
		}
		samples, err := r.metrics(p.Metadata.Name)
		if err != nil {
			return 0, err
		}
		for name, value := range samples {
			if strings.HasPrefix(name, "mcmw_requests_total{") {
				count, err := strconv.ParseFloat(value, 64)
				if err != nil {
					return 0, err
				}
				n += int(count)
			}
		}
	}
	return n, nil
}

// stop ends the load and returns what it counted.
func (v *verification) stop() *history.Verified {
	v.r.t.Helper()
	require.NoError(v.r.t, v.end.Close())
	select {
	case err := <-v.ended:
		// Exit code 1 says that something was wrong; the caller checks what.
		if exit := new(exec.ExitError); err != nil &&
			!(errors.As(err, &exit) && exit.ExitCode() == 1 && v.out.Len() > 0) {
			require.NoError(v.r.t, err)
		}
	case <-time.After(patience):
		require.FailNow(v.r.t, "the load does not end")
	}
	var counted history.Verified
	require.NoError(v.r.t, json.Unmarshal(v.out.Bytes(), &counted), "%s", &v.out)
	var text strings.Builder
	require.NoError(v.r.t, counted.WriteText(&text))
	v.r.t.Log("\n" + text.String())
	return &counted
}
