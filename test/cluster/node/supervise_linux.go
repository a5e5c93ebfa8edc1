package node

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/template"
	"time"

	"mcmw/lab/process"
	"mcmw/test/cluster/image"
)

// files are the configurations of the cluster's programs, templates over settings.
//
//go:embed files
var files embed.FS

// settings are the values for the templates of the files.
type settings struct {
	Dir, Cgroup, Node, NodeAddress, PodNetwork, ServiceNetwork, DNSAddress, APIServer, PluginDir, Socket string
	PauseImage, DNSImage                                                                                 string
}

const (
	pauseImage = "localhost/pause:1"
	dnsImage   = "localhost/coredns:1"
)

// startWithin bounds the time until any part of the cluster is ready, on a busy machine.
const startWithin = 3 * time.Minute

// supervisor starts the programs of a cluster and watches them.
type supervisor struct {
	cluster  *Cluster
	progress io.Writer
	running  []*process.Process
}

// Supervise brings up the cluster in whose namespaces it is called, writes its progress to file descriptor 3, and
// returns when one of its programs has ended.
func (c *Cluster) Supervise(ctx context.Context) error {
	if os.Getpid() == 1 || os.Getppid() != 1 {
		return errors.New("supervise must be started by a cluster's first process")
	}
	s := &supervisor{cluster: c, progress: os.NewFile(3, "progress")}
	if err := s.bringUp(ctx); err != nil {
		return err
	}
	if err := s.tell(ready); err != nil {
		return err
	}
	watch := time.NewTicker(time.Second)
	defer watch.Stop()
	for range watch.C {
		if err := s.check(); err != nil {
			return err
		}
	}
	return nil
}

// tell writes a line of progress. An error means that nobody waits for the cluster any more.
func (s *supervisor) tell(line string) error {
	if _, err := fmt.Fprintln(s.progress, line); err != nil {
		return fmt.Errorf("up has ended before the cluster was ready: %w", err)
	}
	return nil
}

// check returns the error of a program that has ended.
func (s *supervisor) check() error {
	for _, p := range s.running {
		if err := p.Ended(); err != nil {
			return err
		}
	}
	return nil
}

func (s *supervisor) bringUp(ctx context.Context) error {
	if err := s.configure(); err != nil {
		return err
	}
	pki := insideDir + "/pki/"
	if err := s.tell("starting etcd, kube-apiserver and containerd"); err != nil {
		return err
	}
	if err := s.start("etcd", "--data-dir", insideDir+"/etcd", "--listen-client-urls", "http://127.0.0.1:2379",
		"--advertise-client-urls", "http://127.0.0.1:2379", "--listen-peer-urls", "http://127.0.0.1:2380"); err != nil {
		return err
	}
	if err := s.start("containerd", "--config", insideDir+"/containerd.toml"); err != nil {
		return err
	}
	if err := s.start("kube-apiserver",
		"--etcd-servers", "http://127.0.0.1:2379", "--bind-address", "0.0.0.0", "--advertise-address", nodeAddress,
		"--service-cluster-ip-range", serviceNetwork, "--authorization-mode", "RBAC,Node", "--allow-privileged",
		"--client-ca-file", pki+"ca.crt", "--tls-cert-file", pki+"apiserver.crt", "--tls-private-key-file",
		pki+"apiserver.key",
		"--kubelet-client-certificate", pki+"admin.crt", "--kubelet-client-key", pki+"admin.key",
		"--kubelet-certificate-authority", pki+"ca.crt",
		// kubectl exec would fail with the node's name, which is in no DNS.
		"--kubelet-preferred-address-types", "InternalIP",
		"--service-account-issuer", "https://kubernetes.default.svc", "--service-account-key-file", pki+"sa.pub",
		"--service-account-signing-key-file", pki+"sa.key",
		// Pods get the labels of their node's zone, as by default from Kubernetes 1.35 on.
		"--feature-gates", "PodTopologyLabelsAdmission=true",
		"--requestheader-client-ca-file", pki+"ca.crt", "--requestheader-allowed-names", "front-proxy",
		"--requestheader-username-headers", "X-Remote-User", "--requestheader-group-headers", "X-Remote-Group",
		"--requestheader-extra-headers-prefix", "X-Remote-Extra-",
		"--proxy-client-cert-file", pki+"front-proxy.crt", "--proxy-client-key-file", pki+"front-proxy.key"); err !=
		nil {
		return err
	}
	if err := s.importImages(ctx); err != nil {
		return err
	}
	if err := s.await(ctx, "kube-apiserver",
		func() (string, error) { return s.kubectl(ctx, "", "get", "--raw", "/readyz") }); err != nil {
		return err
	}
	if err := s.tell("starting kube-controller-manager, kube-scheduler, kubelet and kube-proxy"); err != nil {
		return err
	}
	for _, command := range [][]string{
		{
			"kube-controller-manager", "--kubeconfig", adminConfig, "--service-account-private-key-file",
			pki + "sa.key",
			"--root-ca-file", pki + "ca.crt", "--use-service-account-credentials", "--leader-elect=false",
			// Tests should not wait: autoscaling decides every 5 s, and scales down after 15 s.
			"--horizontal-pod-autoscaler-sync-period", "5s",
			"--horizontal-pod-autoscaler-downscale-stabilization", "15s",
		},
		{"kube-scheduler", "--kubeconfig", adminConfig, "--leader-elect=false"},
		{
			"kubelet", "--kubeconfig", adminConfig, "--config", insideDir + "/kubelet.yaml", "--hostname-override",
			nodeName,
			"--node-ip", nodeAddress, "--root-dir", "/var/lib/kubelet",
		},
		{"kube-proxy", "--config", insideDir + "/kube-proxy.yaml"},
	} {
		if err := s.start(command[0], command[1:]...); err != nil {
			return err
		}
	}
	manifest, err := os.ReadFile(insideDir + "/coredns.yaml")
	if err != nil {
		return err
	}
	if err := s.await(ctx, "CoreDNS's objects",
		func() (string, error) { return s.kubectl(ctx, string(manifest), "apply", "-f", "-") }); err != nil {
		return err
	}
	if err := s.tell("waiting for the node and the DNS"); err != nil {
		return err
	}
	for _, what := range [][]string{
		{"wait", "--for=condition=Ready", "node/" + nodeName, "--timeout=5s"},
		{"--namespace", "kube-system", "wait", "--for=condition=Available", "deployment/coredns", "--timeout=5s"},
	} {
		if err := s.await(ctx, strings.Join(what, " "),
			func() (string, error) { return s.kubectl(ctx, "", what...) }); err != nil {
			return err
		}
	}
	return nil
}

// configure writes certificates and configurations to insideDir.
func (s *supervisor) configure() error {
	ca, err := newAuthority(insideDir + "/pki")
	if err != nil {
		return err
	}
	for _, cert := range []struct {
		file, name, organization string
		hosts                    []string
	}{
		{"apiserver", "kube-apiserver", "", []string{
			"127.0.0.1", nodeAddress, apiAddress, "localhost", "kubernetes",
			"kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
		}},
		{"kubelet", nodeName, "", []string{nodeAddress, nodeName}},
		{"admin", "admin", "system:masters", nil},
		{"front-proxy", "front-proxy", "", nil},
	} {
		if err := ca.sign(cert.file, cert.name, cert.organization, cert.hosts...); err != nil {
			return err
		}
	}
	if err := ca.tokens(); err != nil {
		return err
	}
	return s.cluster.writeFiles(insideDir)
}

// writeFiles fills in the configurations and writes them to dir.
func (c *Cluster) writeFiles(dir string) error {
	templates, err := template.New("").Option("missingkey=error").ParseFS(files, "files/*")
	if err != nil {
		return err
	}
	values := settings{
		Dir: insideDir, Cgroup: c.cgroup(), Node: nodeName, NodeAddress: nodeAddress, PodNetwork: podNetwork,
		ServiceNetwork: serviceNetwork,
		DNSAddress:     dnsAddress, APIServer: apiServer, PluginDir: pluginDir, Socket: containerdSocket,
		PauseImage: pauseImage, DNSImage: dnsImage,
	}
	for _, t := range templates.Templates() {
		if t.Tree == nil {
			continue
		}
		path := filepath.Join(dir, t.Name())
		if strings.HasSuffix(t.Name(), ".conflist") {
			path = filepath.Join(dir, "cni", t.Name())
		}
		var text bytes.Buffer
		if err := t.Execute(&text, values); err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, text.Bytes(), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// start starts a program with its own log file.
func (s *supervisor) start(name string, args ...string) error {
	log, err := os.Create(filepath.Join(s.cluster.Logs(), name+".log"))
	if err != nil {
		return err
	}
	cmd := exec.Command(s.cluster.Program(name), args...)
	cmd.Stdout, cmd.Stderr = log, log
	p, err := process.Start(name, cmd)
	if err != nil {
		return err
	}
	s.running = append(s.running, p)
	return nil
}

// await calls try until it succeeds. It fails if that takes too long, or if a program of the cluster ends.
func (s *supervisor) await(ctx context.Context, what string, try func() (string, error)) error {
	retry := time.NewTicker(100 * time.Millisecond)
	defer retry.Stop()
	late := time.NewTimer(startWithin)
	defer late.Stop()
	for {
		out, err := try()
		if err == nil {
			return nil
		}
		if ended := s.check(); ended != nil {
			return ended
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-late.C:
			return fmt.Errorf("%s: not there after %v: %w: %s", what, startWithin, err, out)
		case <-retry.C:
		}
	}
}

// kubectl runs kubectl with a standard input and returns its output.
func (s *supervisor) kubectl(ctx context.Context, input string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, s.cluster.Program("kubectl"), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+adminConfig, "HOME="+insideDir)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// importImages imports the images that the cluster itself needs into containerd.
func (s *supervisor) importImages(ctx context.Context) error {
	for _, i := range []image.Image{
		{
			Name: pauseImage, Files: []image.File{{From: s.cluster.Program("pause"), To: "/pause"}},
			Entrypoint: []string{"/pause"},
		},
		{
			Name: dnsImage, Files: []image.File{{From: s.cluster.Program("dns"), To: "/coredns"}},
			Entrypoint: []string{"/coredns"},
		},
	} {
		var archive bytes.Buffer
		if err := i.Write(&archive); err != nil {
			return fmt.Errorf("the image %s: %w", i.Name, err)
		}
		err := s.await(ctx, "containerd", func() (string, error) {
			cmd := exec.CommandContext(ctx, "ctr", ImportArgs()...)
			cmd.Stdin = bytes.NewReader(archive.Bytes())
			out, err := cmd.CombinedOutput()
			return string(out), err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
