package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Kubernetes 1.34 is the last minor version whose kubelet also runs with control groups of version 1.
const kubernetesVersion = "v1.34.4"

// program is a program that is compiled from a module at an exact version.
type program struct {
	name, version string
	commands      []string // the programs that are compiled
	pkg           string   // package to install, or to build in dir
	dir           string   // folder in test/cluster of a module with the program's requirements; "" if there is none
	flags         string   // for the linker
}

var programs = []program{
	{
		name: "kubernetes", version: kubernetesVersion,
		commands: []string{
			"kube-apiserver", "kube-controller-manager", "kube-proxy", "kube-scheduler", "kubectl",
			"kubelet",
		},
		pkg: "tool", dir: "components",
		// A node without it reports v0.0.0.
		flags: "-X k8s.io/component-base/version.gitVersion=" + kubernetesVersion,
	},
	{name: "coredns", version: "v1.15.0", commands: []string{"dns"}, pkg: ".", dir: "components/dns"},
	{name: "pause", version: "v1", commands: []string{"pause"}, pkg: "./pause", dir: "."},
	{name: "helm", version: "v4.3.1", commands: []string{"helm"}, pkg: "helm.sh/helm/v4/cmd/helm"},
	{name: "kwok", version: "v0.8.0", commands: []string{"kwok"}, pkg: "sigs.k8s.io/kwok/cmd/kwok"},
	{
		name: "prometheus-adapter", version: "v0.12.0", commands: []string{"adapter"}, pkg: "tool",
		dir: "components/adapter",
	},
}

// folder returns the folder of a compiled program.
func (p program) folder(cache string) string { return filepath.Join(cache, p.name+"-"+p.version) }

// Build compiles the programs that are not in the cache: about ten minutes on two cores at first, nothing later.
func (c *Cluster) Build(ctx context.Context, progress io.Writer) error {
	for _, p := range programs {
		dir := p.folder(c.cache)
		if _, err := os.Stat(dir); err == nil {
			continue
		} else if !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if err := os.MkdirAll(c.cache, 0o755); err != nil {
			return err
		}
		// An interruption must not leave an incomplete program in its final place.
		unfinished, err := os.MkdirTemp(c.cache, "unfinished-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(unfinished)
		fmt.Fprintf(progress, "compiling %s %s, once\n", p.name, p.version)
		if err := p.build(ctx, unfinished); err != nil {
			return fmt.Errorf("compiling %s %s: %w", p.name, p.version, err)
		}
		if err := os.Chmod(unfinished, 0o755); err != nil {
			return err
		}
		if err := os.Rename(unfinished, dir); err != nil {
			return err
		}
	}
	return nil
}

// build compiles the program into dir.
func (p program) build(ctx context.Context, dir string) error {
	args := []string{"-trimpath", "-ldflags", strings.TrimSpace("-s -w " + p.flags)}
	var cmd *exec.Cmd
	if p.dir == "" {
		cmd = exec.CommandContext(ctx, "go", append(append([]string{"install"}, args...), p.pkg+"@"+p.version)...)
		cmd.Dir = dir
	} else {
		root, err := ModuleRoot()
		if err != nil {
			return err
		}
		cmd = exec.CommandContext(ctx, "go", append(append([]string{"build"}, args...), "-o", dir+"/", p.pkg)...)
		cmd.Dir = filepath.Join(root, "test", "cluster", p.dir)
	}
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOBIN="+dir, "GOFLAGS=-buildvcs=false", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w:\n%s", err, out)
	}
	for _, name := range p.commands {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// ModuleRoot returns the folder of mcmw's source that the working directory lies in.
func ModuleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for d := dir; ; d = filepath.Dir(d) {
		if _, err := os.Stat(filepath.Join(d, "test", "cluster", "components", "go.mod")); err == nil {
			return d, nil
		}
		if d == filepath.Dir(d) {
			return "", fmt.Errorf("%s is not in mcmw's source, from which the cluster's programs are compiled", dir)
		}
	}
}

// Program returns the path of a compiled program.
func (c *Cluster) Program(command string) string {
	for _, p := range programs {
		for _, name := range p.commands {
			if name == command {
				return filepath.Join(p.folder(c.cache), name)
			}
		}
	}
	return command
}

// needed are the commands from Debian packages, with the packages.
var needed = []struct{ command, pkg string }{
	{"etcd", "etcd-server"},
	{"containerd", "containerd"},
	{"ctr", "containerd"},
	{"runc", "runc"},
	{pluginDir + "/bandwidth", "containernetworking-plugins"},
	{"iptables", "iptables"},
	{"nft", "nftables"},
	{"ip", "iproute2"},
	{"nsenter", "util-linux"},
}

// pluginDir is the directory of Debian's network plugins.
const pluginDir = "/usr/lib/cni"

// Possible returns the reason why no cluster can run here; nil if one can.
func Possible() error {
	if err := possibleSystem(); err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return errors.New("a cluster needs root, for its containers: run as root")
	}
	for _, n := range needed {
		if _, err := exec.LookPath(n.command); err != nil {
			return fmt.Errorf("%s is not there (Debian's package %s): run .ci/deps cluster", n.command, n.pkg)
		}
	}
	return nil
}
