package discover

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
)

// podName matches the name of a pod of a StatefulSet.
var podName = regexp.MustCompile(`^(.+)-(\d+)$`)

// wanted returns the servers that the Service's StatefulSets are to have, whether or not their pods are there. The pods
// of found name the StatefulSets. A server's address is the DNS name of its pod, which exists once the pod has an
// address.
func (w *watch) wanted(ctx context.Context, found []target) (all []target) {
	asked := map[[2]string]bool{}
	for _, t := range found {
		host, port, err := net.SplitHostPort(t.name)
		if err != nil {
			host, port = t.name, strconv.Itoa(defaultPort)
		}
		match := podName.FindStringSubmatch(host)
		if match == nil || asked[[2]string{match[1], port}] {
			continue
		}
		set := match[1]
		asked[[2]string{set, port}] = true
		first, n, err := w.replicas(ctx, set)
		if err != nil {
			if !w.setTrouble {
				w.log.Warn("the number of pods of a StatefulSet is unknown: a server that is away for long is removed",
					"statefulset", set, "error", err)
			}
			w.setTrouble = true
			continue
		}
		w.setTrouble = false
		for i := first; i < first+n; i++ {
			pod := fmt.Sprintf("%s-%d", set, i)
			addr := net.JoinHostPort(pod+"."+w.domain, port)
			all = append(all, target{name: serverName(pod, port), addr: addr, weight: 1})
		}
	}
	return all
}

// replicas returns the number of the first pod of a StatefulSet, and how many pods it is to have; 0 if the Service is
// not the one that gives them their names.
func (w *watch) replicas(ctx context.Context, name string) (first, n int, err error) {
	var set struct {
		Spec struct {
			ServiceName string
			Replicas    int
			Ordinals    struct{ Start int }
		}
	}
	path := fmt.Sprintf("/apis/apps/v1/namespaces/%s/statefulsets/%s", w.service.namespace, url.PathEscape(name))
	if err = w.cluster.get(ctx, path, &set); err != nil || set.Spec.ServiceName != w.service.name {
		return 0, 0, err
	}
	return set.Spec.Ordinals.Start, set.Spec.Replicas, nil
}

// lacks reports whether found lacks a server of known.
func lacks(found, known []target) bool {
	return slices.ContainsFunc(known, func(k target) bool {
		return !slices.ContainsFunc(found, func(t target) bool { return t.name == k.name })
	})
}

// serverName returns the name of the server at this host and port.
func serverName(host, port string) string {
	if port == strconv.Itoa(defaultPort) {
		return host
	}
	return net.JoinHostPort(host, port)
}
