package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"mcmw/internal/lab/process"
	"mcmw/internal/lab/testbed"
	"mcmw/internal/lab/testbed/remote"
)

type pod struct {
	Metadata struct{ Name string }
	Status   struct{ PodIP string }
}

// pods returns those of a release's component, in the order of their numbers, or names.
func (b *bed) pods(ctx context.Context, release, component string) ([]pod, error) {
	text, err := b.tools.kubectl(ctx, "", "--namespace", b.namespace, "get", "pods", "--output", "json", "--field-selector", "status.phase=Running",
		"--selector", "app.kubernetes.io/instance="+release+",app.kubernetes.io/component="+component)
	if err != nil {
		return nil, err
	}
	return readPods(text)
}

// readPods reads a list of pods as kubectl writes it.
func readPods(text []byte) ([]pod, error) {
	var list struct{ Items []pod }
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("the list of pods: %w", err)
	}
	for _, p := range list.Items {
		if net.ParseIP(p.Status.PodIP) == nil {
			return nil, fmt.Errorf("the pod %s has no address", p.Metadata.Name)
		}
	}
	slices.SortFunc(list.Items, func(a, b pod) int {
		if d := number(a.Metadata.Name) - number(b.Metadata.Name); d != 0 {
			return d
		}
		return strings.Compare(a.Metadata.Name, b.Metadata.Name)
	})
	return list.Items, nil
}

// number returns that of a pod of a StatefulSet, as the name ends with; 0 for others.
func number(name string) int {
	n, err := strconv.Atoi(name[strings.LastIndexByte(name, '-')+1:])
	if err != nil {
		return 0
	}
	return n
}

// follow returns a process that ends when the pod's container does. Its log goes to log, if there is one.
func (b *bed) follow(p pod, container, name string, port int, log *testbed.Log) (testbed.Member, error) {
	said := new(process.Tail)
	cmd := exec.Command("kubectl", b.tools.kubectlArgs("--namespace", b.namespace, "logs", "--follow", "--container", container, p.Metadata.Name)...)
	cmd.Stdout = said
	if log != nil {
		cmd.Stdout = &logFilter{to: log, said: said}
	}
	following, err := process.Start(name, "", cmd)
	if err != nil {
		return testbed.Member{}, err
	}
	return testbed.Member{
		Process: &followed{following, p.Metadata.Name, said}, Name: name, Log: log, Address: net.JoinHostPort(p.Status.PodIP, strconv.Itoa(port)),
	}, nil
}

type followed struct {
	*process.Process
	pod  string
	said *process.Tail
}

// Ended returns an error if the container has ended, or can't be followed any more.
func (f *followed) Ended() error {
	if f.Process.Ended() == nil {
		return nil
	}
	return fmt.Errorf("%s: the pod %s has ended, or its log can't be followed; it said last:\n%s", f.Name, f.pod, strings.TrimSpace(f.said.String()+"\n"+f.Log()))
}

// Stop ends the following.
func (f *followed) Stop(syscall.Signal) { f.Process.Stop(syscall.SIGTERM) }

type loadPod struct {
	*remote.Conn
	pod pod
}

// Name returns the pod's name.
func (l *loadPod) Name() string { return l.pod.Metadata.Name }

// Address returns the pod's address.
func (l *loadPod) Address() string { return l.pod.Status.PodIP }

// FreePort returns a port of the pod that nobody listens on.
func (l *loadPod) FreePort(ctx context.Context) (int, error) {
	return l.Conn.FreePort(ctx, l.Address())
}

func (b *bed) connect(ctx context.Context, p pod) (*loadPod, error) {
	conn, err := remote.Connect(ctx, remote.Command{
		Host: "pod " + p.Metadata.Name,
		Cmd: exec.Command("kubectl", b.tools.kubectlArgs("--namespace", b.namespace, "exec", "--stdin", "--container", "loadgen", p.Metadata.Name, "--",
			mcmwlab, "agent", "serve")...),
		Explain: func(code int, stderr string) error {
			if stderr == "" {
				return errors.New("kubectl exec has ended")
			}
			return fmt.Errorf("kubectl exec has ended with code %d: %s", code, stderr)
		},
	})
	if err != nil {
		return nil, err
	}
	return &loadPod{conn, p}, nil
}
