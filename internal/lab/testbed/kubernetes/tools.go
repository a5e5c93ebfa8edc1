package kubernetes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"mcmw/internal/lab/process"
)

// tools are kubectl and helm, for one cluster.
type tools struct {
	context string // of kubectl; "": the current one
}

// findTools refuses a machine without the programs.
func findTools() error {
	var problems []error
	for program, where := range map[string]string{
		"kubectl": "https://kubernetes.io/docs/tasks/tools/", "helm": "https://helm.sh/docs/intro/install/",
	} {
		if _, err := exec.LookPath(program); err != nil {
			problems = append(problems, fmt.Errorf("the testbed kubernetes needs %s in PATH: %s says how to install it", program, where))
		}
	}
	return errors.Join(problems...)
}

// kubectlArgs are the arguments of kubectl with those that lead to the cluster.
func (t tools) kubectlArgs(args ...string) []string {
	if t.context != "" {
		return append([]string{"--context", t.context}, args...)
	}
	return args
}

func (t tools) kubectl(ctx context.Context, input string, args ...string) ([]byte, error) {
	return run(ctx, input, "kubectl", t.kubectlArgs(args...)...)
}

// firstValues is where helm finds the text that it is given beside its standard input: no file that could be left behind.
const firstValues = "/dev/fd/3"

// helm runs it and returns its output. It reads first, which is short, at firstValues, and input at its standard input.
func (t tools) helm(ctx context.Context, first, input string, args ...string) ([]byte, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer read.Close()
	_, err = io.WriteString(write, first)
	if err = errors.Join(err, write.Close()); err != nil {
		return nil, err
	}
	if t.context != "" {
		args = append([]string{"--kube-context", t.context}, args...)
	}
	return runWith(ctx, []*os.File{read}, input, "helm", args...)
}

// run runs a program to its end and returns its output. The program doesn't outlive this one.
func run(ctx context.Context, input, name string, args ...string) ([]byte, error) {
	return runWith(ctx, nil, input, name, args...)
}

// runWith does the same with more files, from number 3.
func runWith(ctx context.Context, files []*os.File, input, name string, args ...string) ([]byte, error) {
	var out bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Stdin, cmd.Stdout, cmd.ExtraFiles = strings.NewReader(input), &out, files
	p, err := process.Start(name, "", cmd)
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

// logFilter hands on the lines of a container's log that are of the statistics log; the others are what mcmw says on standard error.
type logFilter struct {
	to      io.Writer // the statistics log
	said    io.Writer // everything else
	partial []byte
}

// Write takes a part of the log.
func (f *logFilter) Write(p []byte) (int, error) {
	f.partial = append(f.partial, p...)
	for {
		end := bytes.IndexByte(f.partial, '\n')
		if end < 0 {
			return len(p), nil
		}
		line := f.partial[:end+1]
		to := f.said
		if bytes.HasPrefix(line, []byte(`{"type":`)) {
			to = f.to
		}
		if _, err := to.Write(line); err != nil {
			return 0, err
		}
		f.partial = f.partial[end+1:]
	}
}
