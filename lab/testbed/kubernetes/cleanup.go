package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"

	"mcmw/lab/kernel"
)

const (
	// managedBy is the label by which the lab finds its namespaces.
	managedBy = "app.kubernetes.io/managed-by"
	// ownerKey is the annotation of a namespace that names the lab that made it.
	ownerKey = "mcmwlab/owner"
)

// labForm matches what identifies a lab: its host, its process, and when that was started, which distinguishes it from
// a later process with the same id.
var labForm = regexp.MustCompile(`^([^/]+)/([1-9][0-9]*)/([0-9]+)$`)

// labOf returns the text that identifies a process of this host as a lab.
func labOf(pid int) (string, error) {
	host, err := os.Hostname()
	if err != nil {
		return "", err
	}
	started, err := kernel.StartTime(pid)
	return fmt.Sprintf("%s/%d/%d", host, pid, started), err
}

// Cleanup removes the namespaces that labs of this host have left in the cluster of a kubectl context ("": the current
// one), and lists them on out. It leaves alone the namespaces of running labs. For those of other hosts it prints the
// command that removes them.
func Cleanup(ctx context.Context, kubeContext string, out io.Writer) error {
	if err := findTools(); err != nil {
		return err
	}
	t := tools{kubeContext}
	text, err := t.kubectl(ctx, "", "get", "namespaces", "--selector", managedBy+"=mcmwlab", "--output", "json")
	if err != nil {
		return err
	}
	var list struct {
		Items []struct {
			Metadata struct {
				Name        string
				Annotations map[string]string
			}
		}
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return fmt.Errorf("reading the list of namespaces: %w", err)
	}
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	var problems []error
	for _, n := range list.Items {
		name, owner := n.Metadata.Name, n.Metadata.Annotations[ownerKey]
		if parts := labForm.FindStringSubmatch(owner); parts != nil && parts[1] == host {
			pid, _ := strconv.Atoi(parts[2]) // out of range: no process has it
			if now, err := labOf(pid); err == nil && now == owner {
				fmt.Fprintf(out, "kept the Kubernetes namespace %s: its lab, process %d, is running\n", name, pid)
				continue
			}
			if err := t.removeNamespace(ctx, name); err != nil {
				problems = append(problems, err)
				continue
			}
			fmt.Fprintf(out, "removed the Kubernetes namespace %s of the lab that was process %d\n", name, pid)
			continue
		}
		fmt.Fprintf(out,
			"kept the Kubernetes namespace %s: its lab (%s) may be running; if it is not: kubectl delete namespace "+
				"%s\n",
			name, owner, name)
	}
	return errors.Join(problems...)
}

// removeNamespace removes a namespace and returns when it is gone.
func (t tools) removeNamespace(ctx context.Context, name string) error {
	if _, err := t.kubectl(ctx, "", "delete", "namespace", name, "--ignore-not-found", "--timeout",
		removeTimeout.String()); err != nil {
		return fmt.Errorf("%w; if it still exists, remove it with: kubectl delete namespace %s", err, name)
	}
	return nil
}
