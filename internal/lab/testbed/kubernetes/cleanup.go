package kubernetes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

const (
	// managedBy is the label of namespaces by which they are found.
	managedBy = "app.kubernetes.io/managed-by"
	// ownerKey is the annotation of a namespace that says which lab has made it.
	ownerKey = "mcmwlab/owner"
)

type lab struct {
	host    string
	pid     int
	started uint64 // as its kernel counts, so that another process of that id isn't taken for it
}

func thisLab() (l lab, err error) {
	if l.host, err = os.Hostname(); err != nil {
		return l, err
	}
	l.pid = os.Getpid()
	l.started, err = startOf(l.pid)
	return l, err
}

// String returns what parseLab reads.
func (l lab) String() string { return fmt.Sprintf("%s/%d/%d", l.host, l.pid, l.started) }

func parseLab(text string) (l lab, err error) {
	parts := strings.Split(text, "/")
	if len(parts) != 3 {
		return l, fmt.Errorf("%q is no lab; expected HOST/PROCESS/START", text)
	}
	l.host = parts[0]
	if l.pid, err = strconv.Atoi(parts[1]); err == nil {
		l.started, err = strconv.ParseUint(parts[2], 10, 64)
	}
	return l, err
}

// startOf returns when a process that runs was started: field 22 of proc(5)'s stat. One that has ended and whose parent hasn't noticed
// doesn't run.
func startOf(pid int) (uint64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The name, field 2, is in parentheses and may hold anything.
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	const started = 22 - 3
	if len(fields) <= started {
		return 0, fmt.Errorf("/proc/%d/stat has %d fields after the name", pid, len(fields))
	}
	if state := string(fields[0]); state == "Z" || state == "X" {
		return 0, fmt.Errorf("process %d has ended", pid)
	}
	return strconv.ParseUint(string(fields[started]), 10, 64)
}

// Cleanup removes the namespaces that labs of this host have left in the cluster of a context of kubectl ("": the current one) and
// says so. Those of labs that run are left alone, and those of other hosts are named with how to remove them.
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
		return fmt.Errorf("the list of namespaces: %w", err)
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
			if started, err := startOf(owner.pid); err == nil && started == owner.started {
				fmt.Fprintf(out, "left the Kubernetes namespace %s: its lab runs, process %d\n", name, owner.pid)
				continue
			}
			if err := t.removeNamespace(ctx, name); err != nil {
				problems = append(problems, err)
				continue
			}
			fmt.Fprintf(out, "removed the Kubernetes namespace %s of the lab that was process %d\n", name, owner.pid)
			continue
		}
		fmt.Fprintf(out, "left the Kubernetes namespace %s: it isn't known whether its lab runs (%s); if it doesn't: kubectl delete namespace %s\n",
			name, n.Metadata.Annotations[ownerKey], name)
	}
	return errors.Join(problems...)
}

// removeNamespace removes a namespace and returns when it is gone.
func (t tools) removeNamespace(ctx context.Context, name string) error {
	if _, err := t.kubectl(ctx, "", "delete", "namespace", name, "--ignore-not-found", "--timeout", removeTimeout.String()); err != nil {
		return fmt.Errorf("%w\nit may still be there; remove it with: kubectl delete namespace %s", err, name)
	}
	return nil
}
