package mctest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Endpoint is an endpoint of an EndpointSlice, as the API server encodes it.
type Endpoint struct {
	Addresses  []string        `json:"addresses"`
	Hostname   string          `json:"hostname,omitempty"`
	Zone       string          `json:"zone,omitempty"`
	Conditions map[string]bool `json:"conditions"`
}

// At returns the endpoint of a pod with the conditions that are true.
func At(hostname, address string, conditions ...string) Endpoint {
	e := Endpoint{Addresses: []string{address}, Hostname: hostname, Conditions: map[string]bool{}}
	for _, c := range conditions {
		e.Conditions[c] = true
	}
	return e
}

// APIServer is a Kubernetes API server that knows only the EndpointSlices of the service "memcached" in the namespace
// "ns", which can be listed and watched, the StatefulSet "memcached" once Scale was called, and the status of pods that
// were put.
type APIServer struct {
	// Dir is the directory of a pod's service account: the token and the certificate authority.
	Dir string

	t    testing.TB
	http *httptest.Server

	mu       sync.Mutex // guards the fields below
	version  int
	slices   map[string]any
	events   []map[string]any // by version, from 1 on
	more     chan struct{}    // closed at the next change of anything here
	broken   int              // the number of breaks: a stream ends when it grows
	gone     bool             // the versions of streams are refused until the next list
	refusing int              // the status of all answers; 0: normal answers
	lists    int
	resumed  []string // the versions with which streams began
	token    string
	pods     int // of the StatefulSet; 0: there is none
	statuses map[string]*Pod
}

// Pod is the status of a pod.
type Pod struct {
	UID, IP    string
	Gates      []string          // the types of its readiness gates
	Conditions map[string]string // by type
	Patches    int               // how often the status was changed by a request
}

// StartAPIServer starts an APIServer, which ends with the test.
func StartAPIServer(t testing.TB) *APIServer {
	t.Helper()
	a := &APIServer{
		t: t, Dir: t.TempDir(), slices: map[string]any{}, more: make(chan struct{}),
		statuses: map[string]*Pod{},
	}
	ca := NewCA(t)
	a.http = httptest.NewUnstartedServer(a)
	a.http.TLS, a.http.EnableHTTP2 = ca.Server(), true
	a.http.StartTLS()
	t.Cleanup(a.Close)
	authority, err := os.ReadFile(ca.File)
	if err != nil {
		t.Fatal(err)
	}
	a.write("ca.crt", authority)
	a.Renew("first")
	return a
}

// URL returns the URL of the server.
func (a *APIServer) URL() string { return a.http.URL }

// Close ends the server and its connections.
func (a *APIServer) Close() {
	a.http.CloseClientConnections()
	a.http.Close()
}

func (a *APIServer) write(name string, text []byte) {
	if err := os.WriteFile(filepath.Join(a.Dir, name), text, 0o600); err != nil {
		a.t.Fatal(err)
	}
}

// Renew changes the token of the service account.
func (a *APIServer) Renew(token string) {
	a.write("token", []byte(token+"\n"))
	a.change(func() { a.token = token })
}

// Requests returns the number of lists, and the versions with which streams began.
func (a *APIServer) Requests() (lists int, streams []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.lists, slices.Clone(a.resumed)
}

// change changes a under its lock and notifies the streams.
func (a *APIServer) change(how func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	how()
	close(a.more)
	a.more = make(chan struct{})
}

// Put creates or replaces a slice. port is that of the port called "memcache", one of several; kind is IPv4, IPv6 or
// FQDN.
func (a *APIServer) Put(name, kind string, port int, endpoints ...Endpoint) {
	a.change(func() {
		a.version++
		_, there := a.slices[name]
		object := map[string]any{
			"metadata":    map[string]any{"name": name, "resourceVersion": strconv.Itoa(a.version)},
			"addressType": kind, "endpoints": endpoints, "ports": []map[string]any{
				{"name": "metrics", "protocol": "TCP", "port": 9150},
				{"name": "memcache", "protocol": "UDP", "port": 1},
				{"name": "memcache", "protocol": "TCP", "port": port},
			},
		}
		a.slices[name] = object
		a.events = append(a.events, map[string]any{
			"type":   map[bool]string{true: "MODIFIED", false: "ADDED"}[there],
			"object": object,
		})
	})
}

// PutPods puts a slice with the pods memcached-0 and so on at these addresses. Every second pod is not ready.
func (a *APIServer) PutPods(name string, addresses ...string) {
	var endpoints []Endpoint
	for i, address := range addresses {
		endpoints = append(endpoints, At(fmt.Sprintf("memcached-%d", i), address, []string{"ready"}[i%2:]...))
	}
	a.Put(name, "IPv4", 11211, endpoints...)
}

// Remove deletes a slice.
func (a *APIServer) Remove(name string) {
	a.change(func() {
		a.version++
		delete(a.slices, name)
		a.events = append(a.events, map[string]any{"type": "DELETED", "object": map[string]any{
			"metadata": map[string]any{"name": name, "resourceVersion": strconv.Itoa(a.version)},
		}})
	})
}

// Scale sets how many pods the StatefulSet is to have; 0: there is no StatefulSet.
func (a *APIServer) Scale(pods int) { a.change(func() { a.pods = pods }) }

// PutPod creates or replaces a pod.
func (a *APIServer) PutPod(name string, p Pod) {
	a.change(func() {
		p.Conditions = map[string]string{}
		a.statuses[name] = &p
	})
}

// Pod returns a pod.
func (a *APIServer) Pod(name string) Pod {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := *a.statuses[name]
	p.Conditions = maps.Clone(p.Conditions)
	return p
}

// serve answers a request for the status of a pod, and returns the code of the answer.
func (p *Pod) serve(w http.ResponseWriter, r *http.Request) (code int) {
	type object struct {
		Metadata struct {
			UID string `json:"uid"`
		} `json:"metadata"`
		Spec struct {
			ReadinessGates []map[string]string `json:"readinessGates,omitempty"`
		} `json:"spec"`
		Status struct {
			PodIP      string              `json:"podIP,omitempty"`
			Conditions []map[string]string `json:"conditions"`
		} `json:"status"`
	}
	if r.Method == http.MethodPatch {
		var patch object
		err := json.NewDecoder(r.Body).Decode(&patch)
		switch {
		case err != nil, r.Header.Get("Content-Type") != "application/strategic-merge-patch+json":
			return http.StatusBadRequest
		case patch.Metadata.UID != p.UID:
			return http.StatusConflict
		}
		p.Patches++
		for _, c := range patch.Status.Conditions {
			p.Conditions[c["type"]] = c["status"]
		}
	}
	var o object
	o.Metadata.UID, o.Status.PodIP = p.UID, p.IP
	for _, g := range p.Gates {
		o.Spec.ReadinessGates = append(o.Spec.ReadinessGates, map[string]string{"conditionType": g})
	}
	for t, status := range p.Conditions {
		o.Status.Conditions = append(o.Status.Conditions, map[string]string{"type": t, "status": status})
	}
	_ = json.NewEncoder(w).Encode(o)
	return http.StatusOK
}

// BreakStreams ends the current streams.
func (a *APIServer) BreakStreams() { a.change(func() { a.broken++ }) }

// Expire ends the streams, and refuses their versions until the next list.
func (a *APIServer) Expire() { a.change(func() { a.gone = true; a.broken++ }) }

// Refuse ends the streams and answers all requests with a status from now on; 0: normal answers again.
func (a *APIServer) Refuse(status int) { a.change(func() { a.refusing = status; a.broken++ }) }

func (a *APIServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	status := func(code int, message string) map[string]any {
		return map[string]any{"kind": "Status", "code": code, "message": message}
	}
	refuse := func(code int, message string) {
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(status(code, message))
	}
	query := r.URL.Query()
	pod := a.statuses[strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, "/api/v1/namespaces/ns/pods/"), "/status")]
	switch {
	case a.refusing != 0:
		refuse(a.refusing, "not for you")
		return
	case r.Header.Get("Authorization") != "Bearer "+a.token:
		refuse(http.StatusUnauthorized, "Unauthorized")
		return
	case a.pods > 0 && r.URL.Path == "/apis/apps/v1/namespaces/ns/statefulsets/memcached":
		_ = json.NewEncoder(w).Encode(map[string]any{"spec": map[string]any{
			"serviceName": "memcached",
			"replicas":    a.pods,
		}})
		return
	case pod != nil:
		if code := pod.serve(w, r); code != http.StatusOK {
			refuse(code, r.URL.Path)
		}
		return
	case r.URL.Path != "/apis/discovery.k8s.io/v1/namespaces/ns/endpointslices" ||
		query.Get("labelSelector") != "kubernetes.io/service-name=memcached":
		refuse(http.StatusNotFound, r.URL.String())
		return
	case query.Get("watch") == "":
		a.lists++
		a.gone = false
		_ = json.NewEncoder(w).Encode(map[string]any{
			"metadata": map[string]any{"resourceVersion": strconv.Itoa(a.version)},
			"items":    slices.Collect(maps.Values(a.slices)),
		})
		return
	}
	from, err := strconv.Atoi(query.Get("resourceVersion"))
	if err != nil || query.Get("allowWatchBookmarks") == "" {
		refuse(http.StatusBadRequest, r.URL.String())
		return
	}
	a.resumed = append(a.resumed, query.Get("resourceVersion"))
	if a.gone && from%2 == 0 {
		refuse(http.StatusGone, "too old resource version")
		return
	}
	encoder, flush := json.NewEncoder(w), http.NewResponseController(w)
	if a.gone {
		_ = encoder.Encode(map[string]any{
			"type":   "ERROR",
			"object": status(http.StatusGone, "too old resource version"),
		})
		return
	}
	for begun := a.broken; a.broken == begun; {
		for ; from < len(a.events); from++ {
			_ = encoder.Encode(a.events[from])
		}
		_ = encoder.Encode(map[string]any{
			"type":   "BOOKMARK",
			"object": map[string]any{"metadata": map[string]any{"resourceVersion": strconv.Itoa(from)}},
		})
		_ = flush.Flush()
		more := a.more
		a.mu.Unlock()
		select {
		case <-more:
		case <-r.Context().Done():
		}
		a.mu.Lock()
		if r.Context().Err() != nil {
			return
		}
	}
}
