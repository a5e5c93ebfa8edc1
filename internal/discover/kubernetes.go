package discover

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"mcmw/internal/route"
)

// serviceAccount is the directory in a pod with the token of its service account.
const serviceAccount = "/var/run/secrets/kubernetes.io/serviceaccount"

// Cluster says how to reach the API server of a Kubernetes cluster with a service account.
type Cluster struct {
	// URL is "https://host:port"; "": there is no cluster.
	URL string
	// Dir is the directory with the files ca.crt and token, which is renewed from time to time.
	Dir string
}

// PodCluster returns the Cluster in which this process runs in a pod; the zero value if it does not.
func PodCluster() Cluster {
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return Cluster{}
	}
	return Cluster{URL: "https://" + net.JoinHostPort(host, port), Dir: serviceAccount}
}

func (c Cluster) read(name string) ([]byte, error) {
	if c.URL == "" {
		return nil,
			errors.New("mcmw does not run in a Kubernetes pod: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT " +
				"are not set")
	}
	text, err := os.ReadFile(filepath.Join(c.Dir, name))
	if errors.Is(err, os.ErrNotExist) {
		err = fmt.Errorf("the pod has no token of a service account; set automountServiceAccountToken to true: %w", err)
	}
	return text, err
}

// request sends a request to the API server, with a patch unless that is "", and returns the body of the answer. Each
// request has a connection of its own, which ends with the body, and trusts the certificates that are in ca.crt now.
func (c Cluster) request(ctx context.Context, method, path, patch string) (io.ReadCloser, error) {
	authorities, err := c.read("ca.crt")
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authorities) {
		return nil, fmt.Errorf("%s contains no certificate", filepath.Join(c.Dir, "ca.crt"))
	}
	request, err := http.NewRequestWithContext(ctx, method, c.URL+path, strings.NewReader(patch))
	if err != nil {
		return nil, err
	}
	token, err := c.read("token")
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	if patch != "" {
		request.Header.Set("Content-Type", "application/strategic-merge-patch+json")
	}
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives:     true,
		DialContext:           (&net.Dialer{Timeout: apiTimeout}).DialContext,
		TLSClientConfig:       &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:   apiTimeout,
		ResponseHeaderTimeout: apiTimeout,
		ForceAttemptHTTP2:     true,
		HTTP2:                 &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: apiTimeout},
	}}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		defer response.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(response.Body, 4096))
		return nil, refusal(text, response.StatusCode)
	}
	return response.Body, nil
}

// get decodes the object at path into the value that object points to.
func (c Cluster) get(ctx context.Context, path string, object any) error {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	body, err := c.request(ctx, http.MethodGet, path, "")
	if err != nil {
		return err
	}
	defer body.Close()
	return json.NewDecoder(body).Decode(object)
}

// service is a port of a Kubernetes Service.
type service struct{ port, protocol, name, namespace string }

// ParseService splits the name of a Service's SRV records, "_port._protocol.service.namespace.svc", optionally followed
// by the cluster's domain. ok is false if name does not have this form.
func ParseService(name string) (s service, ok bool) {
	labels := strings.SplitN(canonical(name), ".", 6)
	if len(labels) < 5 || labels[4] != "svc" || !strings.HasPrefix(labels[0], "_") ||
		!strings.HasPrefix(labels[1], "_") {
		return s, false
	}
	return service{labels[0][1:], labels[1][1:], labels[2], labels[3]}, true
}

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

// Gate is the readiness gate of pods whose memcached is refilled by mcmw: such a pod is ready only while this condition
// in its status is true.
const Gate = "mcmw/refilled"

const (
	// gateEvery is the time between two looks at which servers are refilled, gateAgain that until a condition that
	// could not be set is set again.
	gateEvery, gateAgain = time.Second, 5 * time.Second
	// gateConfirm is the time after which the condition is looked at again: other mcmw set it, too.
	gateConfirm = time.Minute
)

// Gates keeps condition Gate of the pods behind watched endpoints up to date. It is used by one goroutine.
type Gates struct {
	Cluster Cluster
	Log     *slog.Logger

	told    map[route.Server]told
	trouble string // the problem that was logged last; "": none
}

// told is what was last done about the condition of a server's pod.
type told struct {
	refilled, done bool // done: the pod has the condition, or has no such gate
	at             time.Time
}

// Keep calls Look until ctx is done.
func (g *Gates) Keep(ctx context.Context, refilled func() map[route.Server]bool) {
	if g.Cluster.URL == "" {
		return
	}
	for {
		g.Look(ctx, time.Now(), refilled())
		select {
		case <-ctx.Done():
			return
		case <-time.After(gateEvery):
		}
	}
}

// Look sets the conditions that have to be set at the time now. refilled says whether servers hold the keys that others
// hold; it lacks those of which that is unknown.
func (g *Gates) Look(ctx context.Context, now time.Time, refilled map[route.Server]bool) {
	before := g.told
	g.told = map[route.Server]told{}
	for s, refilled := range refilled {
		last, due := before[s], gateAgain
		if last.done {
			due = gateConfirm
		}
		if last.refilled == refilled && now.Sub(last.at) < due {
			g.told[s] = last
			continue
		}
		done, err := g.set(ctx, s, refilled)
		if err != nil && ctx.Err() == nil && err.Error() != g.trouble {
			g.trouble = err.Error()
			g.Log.Warn("the pod of a server cannot be told whether it is refilled: with the readiness gate "+Gate+
				" it becomes ready only when it can", "server", s.Name, "error", err)
		}
		g.told[s] = told{refilled, done, now}
	}
}

// set sets the condition of the pod of s. It returns false if the pod of this name is not, or not yet, the one at the
// server's address.
func (g *Gates) set(ctx context.Context, s route.Server, refilled bool) (done bool, err error) {
	lookup, name := CutLookup(s.Entry)
	service, ok := ParseService(name)
	host, _, err := net.SplitHostPort(s.Addr)
	pod, _, _ := strings.Cut(s.Name[strings.LastIndexByte(s.Name, '/')+1:], ":")
	if lookup != Endpoints || !ok || err != nil || pod == unnamed(host) {
		return true, nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	type condition struct {
		Type   string `json:"type"`
		Status string `json:"status"`
	}
	var found struct {
		Metadata struct{ UID string }
		Spec     struct {
			ReadinessGates []struct{ ConditionType string }
		}
		Status struct {
			PodIP      string
			Conditions []condition
		}
	}
	path := fmt.Sprintf("/api/v1/namespaces/%s/pods/%s/status", service.namespace, pod)
	if err := g.Cluster.get(ctx, path, &found); err != nil {
		return false, err
	}
	wanted := condition{Gate, "False"}
	if refilled {
		wanted.Status = "True"
	}
	switch {
	case !slices.Contains(found.Spec.ReadinessGates, struct{ ConditionType string }{Gate}):
		return true, nil
	case found.Status.PodIP != host:
		return false, nil
	case slices.Contains(found.Status.Conditions, wanted):
		return true, nil
	}
	// With another UID, the pod has been replaced meanwhile, and the request is refused.
	patch, _ := json.Marshal(map[string]any{ // never fails
		"metadata": map[string]any{"uid": found.Metadata.UID},
		"status":   map[string]any{"conditions": []condition{wanted}},
	})
	body, err := g.Cluster.request(ctx, http.MethodPatch, path, string(patch))
	if err != nil {
		return false, err
	}
	return true, body.Close()
}
