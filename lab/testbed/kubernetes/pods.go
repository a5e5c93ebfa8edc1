package kubernetes

import (
	"cmp"
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

	"mcmw/lab/process"
	"mcmw/lab/testbed"
	"mcmw/lab/testbed/remote"
)

type pod struct {
	Metadata struct{ Name string }
	Status   struct{ PodIP string }
}

// pods returns the running pods of a release's component, in the order of their numbers, or of their names.
func (b *bed) pods(ctx context.Context, release, component string) ([]pod, error) {
	text, err := b.tools.kubectl(ctx, "", "--namespace", b.namespace, "get", "pods", "--output", "json",
		"--field-selector", "status.phase=Running",
		"--selector", "app.kubernetes.io/instance="+release+",app.kubernetes.io/component="+component)
	if err != nil {
		return nil, err
	}
	return readPods(text)
}

// readPods reads a list of pods in kubectl's JSON.
func readPods(text []byte) ([]pod, error) {
	var list struct{ Items []pod }
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("reading the list of pods: %w", err)
	}
	for _, p := range list.Items {
		if net.ParseIP(p.Status.PodIP) == nil {
			return nil, fmt.Errorf("the pod %s has no address", p.Metadata.Name)
		}
	}
	slices.SortFunc(list.Items, func(a, b pod) int {
		return cmp.Or(number(a.Metadata.Name)-number(b.Metadata.Name),
			strings.Compare(a.Metadata.Name, b.Metadata.Name))
	})
	return list.Items, nil
}

// number returns the number of a StatefulSet's pod, at the end of its name; 0 for other pods.
func number(name string) int {
	n, _ := strconv.Atoi(name[strings.LastIndexByte(name, '-')+1:])
	return n
}

// follow returns a member whose process ends when the pod's container does. If log isn't nil, the container's
// statistics log goes to it.
func (b *bed) follow(p pod, container, name string, port int, log *testbed.Log) (testbed.Member, error) {
	messages := new(process.Tail)
	cmd := exec.Command("kubectl", b.tools.kubectlArgs("--namespace", b.namespace, "logs", "--follow", "--container",
		container, p.Metadata.Name)...)
	cmd.Stdout = messages
	if log != nil {
		cmd.Stdout = logFilter(log, messages)
	}
	following, err := process.Start(name, cmd)
	if err != nil {
		return testbed.Member{}, err
	}
	return testbed.Member{
		Process: &followed{following, p.Metadata.Name, messages}, Name: name, Log: log,
		Address: net.JoinHostPort(p.Status.PodIP, strconv.Itoa(port)),
	}, nil
}

type followed struct {
	*process.Process
	pod      string
	messages *process.Tail
}

// Ended returns an error if the container has ended, or its log cannot be followed any more.
func (f *followed) Ended() error {
	if f.Process.Ended() == nil {
		return nil
	}
	return fmt.Errorf("%s: the pod %s has ended, or its log cannot be followed; its last output:\n%s", f.Name, f.pod,
		strings.TrimSpace(f.messages.String()+"\n"+f.Log()))
}

// Stop ends the following.
func (f *followed) Stop(syscall.Signal) { f.Process.Stop(syscall.SIGTERM) }

// connect connects to a load pod.
func (b *bed) connect(ctx context.Context, p pod) (*remote.Conn, error) {
	return remote.Connect(ctx, remote.Command{
		Kind: "pod", Name: p.Metadata.Name, Address: p.Status.PodIP,
		Cmd: exec.Command("kubectl", b.tools.kubectlArgs("--namespace", b.namespace, "exec", "--stdin", "--container",
			"loadgen", p.Metadata.Name, "--",
			mcmwlab, "agent", "serve")...),
		Explain: func(code int, stderr string) error {
			if stderr == "" {
				return errors.New("kubectl exec has ended")
			}
			return fmt.Errorf("kubectl exec has ended with code %d: %s", code, stderr)
		},
	})
}
