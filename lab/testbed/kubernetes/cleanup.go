package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"mcmw/lab/kernel"
)

const (
	// managedBy is the label by which the lab finds its namespaces.
	managedBy = "app.kubernetes.io/managed-by"
	// ownerKey is the annotation of a namespace that names the lab that made it.
	ownerKey = "mcmwlab/owner"
)

// lab identifies a process that runs a lab.
type lab struct {
	host    string
	pid     int
	started uint64 // kernel.StartTime, which distinguishes it from a later process with the same id
}

func thisLab() (l lab, err error) {
	if l.host, err = os.Hostname(); err != nil {
		return l, err
	}
	l.pid = os.Getpid()
	l.started, err = kernel.StartTime(l.pid)
	return l, err
}

// String returns the form that parseLab reads.
func (l lab) String() string { return fmt.Sprintf("%s/%d/%d", l.host, l.pid, l.started) }

func parseLab(text string) (l lab, err error) {
	parts := strings.Split(text, "/")
	if len(parts) != 3 {
		return l, fmt.Errorf("owner %q: expected HOST/PROCESS/START", text)
	}
	l.host = parts[0]
	if l.pid, err = strconv.Atoi(parts[1]); err == nil {
		l.started, err = strconv.ParseUint(parts[2], 10, 64)
	}
	return l, err
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
	this, err := thisLab()
	if err != nil {
		return err
	}
	var problems []error
	for _, n := range list.Items {
		name := n.Metadata.Name
		owner, err := parseLab(n.Metadata.Annotations[ownerKey])
		if err == nil && owner.host == this.host {
			if started, err := kernel.StartTime(owner.pid); err == nil && started == owner.started {
				fmt.Fprintf(out, "kept the Kubernetes namespace %s: its lab, process %d, is running\n", name, owner.pid)
				continue
			}
			if err := t.removeNamespace(ctx, name); err != nil {
				problems = append(problems, err)
				continue
			}
			fmt.Fprintf(out, "removed the Kubernetes namespace %s of the lab that was process %d\n", name, owner.pid)
			continue
		}
		fmt.Fprintf(out,
			"kept the Kubernetes namespace %s: its lab (%s) may be running; if it is not: kubectl delete namespace "+
				"%s\n",
			name, n.Metadata.Annotations[ownerKey], name)
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
