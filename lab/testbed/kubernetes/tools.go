package kubernetes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"syscall"

	"mcmw/lab/process"
)

// tools are kubectl and helm, for one cluster.
type tools struct {
	context string // of kubectl; "": the current one
}

// findTools returns an error if a program is missing.
func findTools() error {
	var problems []error
	for program, where := range map[string]string{
		"kubectl": "https://kubernetes.io/docs/tasks/tools/", "helm": "https://helm.sh/docs/intro/install/",
	} {
		if _, err := exec.LookPath(program); err != nil {
			problems = append(problems, fmt.Errorf("the testbed kubernetes needs %s in PATH; to install it see %s",
				program, where))
		}
	}
	return errors.Join(problems...)
}

// kubectlArgs returns args for kubectl, with the arguments that select the cluster.
func (t tools) kubectlArgs(args ...string) []string {
	if t.context != "" {
		return append([]string{"--context", t.context}, args...)
	}
	return args
}

func (t tools) kubectl(ctx context.Context, input string, args ...string) ([]byte, error) {
	return run(ctx, input, "kubectl", t.kubectlArgs(args...)...)
}

func (t tools) helm(ctx context.Context, input string, args ...string) ([]byte, error) {
	if t.context != "" {
		args = append([]string{"--kube-context", t.context}, args...)
	}
	return run(ctx, input, "helm", args...)
}

// run runs a program to its end and returns its output. The program ends with this process.
func run(ctx context.Context, input, name string, args ...string) ([]byte, error) {
	var out bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Stdin, cmd.Stdout = strings.NewReader(input), &out
	p, err := process.Start(name, cmd)
	if err != nil {
		return nil, err
	}
	select {
	case <-p.Done():
	case <-ctx.Done():
		p.Stop(syscall.SIGTERM)
		return nil, context.Cause(ctx)
	}
	if p.ExitCode() != 0 {
		return nil, fmt.Errorf("%s %s: %s", name, strings.Join(args, " "), p.Log())
	}
	return out.Bytes(), nil
}

// logFilter returns a writer for a container's log. It writes the lines of the statistics log to statistics, and all
// others, which mcmw writes to standard error, to messages.
func logFilter(statistics, messages io.Writer) io.Writer {
	return &process.Lines{Take: func(line []byte) error {
		to := messages
		if bytes.HasPrefix(line, []byte(`{"type":`)) {
			to = statistics
		}
		_, err := to.Write(line)
		return err
	}}
}
