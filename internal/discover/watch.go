package discover

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"mcmw/internal/stats"
)

const (
	// watchPause is the shortest mean time between two requests for a watch, maxWatchPause the longest.
	watchPause, maxWatchPause = time.Second, 30 * time.Second
	// watchLasts is the least time for which the API server is asked to keep a watch; the time is random up to twice as
	// long. After that the next request may go to another API server.
	watchLasts = 5 * time.Minute
	// apiTimeout bounds the time to connect to the API server, and the wait for the header of an answer.
	apiTimeout = 3 * time.Second
	// pingAfter is how long a connection may be silent before a ping is sent, which the API server must answer within
	// apiTimeout.
	pingAfter = 4 * time.Second
)

// watch has the present EndpointSlices of a Service: it lists them, and then applies each change that the API server
// reports.
type watch struct {
	service service
	domain  string // of the service, in the DNS
	cluster Cluster
	log     *slog.Logger
	counts  *stats.Control
	changed chan<- struct{} // all watches -> the Finder's user; capacity 1; never closed
	tried   chan struct{}   // closed when the first attempt has succeeded or failed
	cancel  context.CancelFunc
	done    chan struct{} // closed when run has returned

	mu      sync.Mutex               // guards the fields below
	slices  map[string]endpointSlice // by name
	trouble error                    // why slices may be out of date; nil: they are up to date

	// setTrouble: it was logged that the number of pods is unknown. Owned by the Finder's user.
	setTrouble bool
}

// errUntried is the trouble of a new watch.
var errUntried = errors.New("the API server has not answered yet")

// errGone means that the API server no longer knows the changes since the resource version.
var errGone = errors.New("the resource version has expired")

// endpointSlice has the fields of an EndpointSlice of discovery.k8s.io/v1 that are used.
type endpointSlice struct {
	Metadata  struct{ Name, ResourceVersion string }
	Endpoints []struct {
		Addresses  []string // the first one counts
		Hostname   string
		Zone       string
		Conditions struct{ Terminating bool }
	}
	Ports []struct {
		Name, Protocol string
		Port           uint16
	}
}

// startWatch starts a watch, which lasts until stop.
func (f *Finder) startWatch(name string) *watch {
	ctx, cancel := context.WithCancel(context.Background())
	s, _ := ParseService(name)
	w := &watch{
		service: s, domain: strings.SplitN(name, ".", 3)[2], cluster: f.options.Cluster,
		log: f.options.Log.With("name", Endpoints.String()+name), counts: f.options.Counts,
		changed: f.changed, tried: make(chan struct{}), cancel: cancel, done: make(chan struct{}), trouble: errUntried,
	}
	w.counts.WatchBroken(1)
	go w.run(ctx)
	return w
}

// stop ends the watch and waits until it has ended.
func (w *watch) stop() {
	w.cancel()
	<-w.done
	if w.trouble == nil {
		w.counts.WatchLive(-1)
	} else {
		w.counts.WatchBroken(-1)
	}
}

// live reports whether the watch is up to date; false if w is nil: there is none.
func (w *watch) live() bool {
	if w == nil {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.trouble == nil
}

func (w *watch) run(ctx context.Context) {
	defer close(w.done)
	version, pause := "", watchPause // version is that of the known slices; "": list them
	for {
		next, opened, err := w.follow(ctx, version)
		gone := errors.Is(err, errGone)
		switch {
		case ctx.Err() != nil:
			return
		case opened || gone:
			pause = watchPause
		default:
			w.record(err)
			pause = min(2*pause, maxWatchPause)
		}
		if version = next; !opened || gone {
			version = ""
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Duration(float64(pause) * (0.5 + rand.Float64()))):
		}
	}
}

// follow lists the slices, if version is "", and applies their changes until the stream ends. opened says whether there
// was a stream, and next is the version from which the next stream continues.
func (w *watch) follow(ctx context.Context, version string) (next string, opened bool, err error) {
	if version == "" {
		if version, err = w.list(ctx); err != nil {
			return version, false, err
		}
	}
	lasts := watchLasts + time.Duration(rand.Int64N(int64(watchLasts)))
	stream, err := w.cluster.request(ctx, http.MethodGet, w.path(url.Values{
		"watch": {"1"}, "allowWatchBookmarks": {"true"}, "resourceVersion": {version},
		"timeoutSeconds": {strconv.Itoa(int(lasts.Seconds()))},
	}), "")
	if err != nil {
		return version, false, err
	}
	defer stream.Close()
	w.record(nil)
	w.signal()
	events := json.NewDecoder(stream)
	for {
		var event struct {
			Type   string
			Object json.RawMessage
		}
		if err := events.Decode(&event); err != nil {
			return version, true, err
		}
		if event.Type == "ERROR" {
			return "", true, refusal(event.Object, 0)
		}
		var s endpointSlice
		if err := json.Unmarshal(event.Object, &s); err != nil {
			return "", true, err
		}
		version = s.Metadata.ResourceVersion
		if event.Type != "BOOKMARK" {
			w.apply(s, event.Type != "DELETED")
		}
	}
}

// list replaces the known slices by those that the API server has now, and returns their version.
func (w *watch) list(ctx context.Context) (version string, err error) {
	var list struct {
		Metadata struct{ ResourceVersion string }
		Items    []endpointSlice
	}
	if err := w.cluster.get(ctx, w.path(url.Values{}), &list); err != nil {
		return "", err
	}
	w.mu.Lock()
	w.slices = make(map[string]endpointSlice)
	for _, s := range list.Items {
		w.slices[s.Metadata.Name] = s
	}
	w.mu.Unlock()
	return list.Metadata.ResourceVersion, nil
}

// path returns the path of the Service's slices, with further parameters.
func (w *watch) path(parameters url.Values) string {
	parameters.Set("labelSelector", "kubernetes.io/service-name="+w.service.name)
	return fmt.Sprintf("/apis/discovery.k8s.io/v1/namespaces/%s/endpointslices?%s", w.service.namespace,
		parameters.Encode())
}

// refusal returns the error in text, a Status of the API server, or else an error with the code of its answer.
func refusal(text []byte, code int) error {
	var status struct {
		Message string
		Code    int
	}
	_ = json.Unmarshal(text, &status)
	if status.Code = cmp.Or(status.Code, code); status.Code == http.StatusGone {
		return errGone
	}
	return fmt.Errorf("the API server answers %d %s: %s", status.Code, http.StatusText(status.Code),
		cmp.Or(status.Message, "no reason given"))
}

// apply records that a slice exists, or does not exist any more.
func (w *watch) apply(s endpointSlice, there bool) {
	w.mu.Lock()
	if there {
		w.slices[s.Metadata.Name] = s
	} else {
		delete(w.slices, s.Metadata.Name)
	}
	w.mu.Unlock()
	w.signal()
}

func (w *watch) signal() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// record records the result of an attempt, and logs and counts it if it changes whether the watch is up to date.
func (w *watch) record(trouble error) {
	w.mu.Lock()
	before := w.trouble
	w.trouble = trouble
	w.mu.Unlock()
	first := errors.Is(before, errUntried)
	if first {
		defer close(w.tried)
	}
	// Count it only now: once the count is seen, lookups already use the DNS, or the watch.
	switch {
	case trouble == nil && before != nil:
		w.log.Info("the service's endpoints are watched")
		w.counts.WatchBroken(-1)
		w.counts.WatchLive(1)
	case trouble != nil && (before == nil || first):
		w.log.Warn("the service's endpoints cannot be watched; its DNS records are looked up until they can",
			"error", trouble)
		if before == nil {
			w.counts.WatchLive(-1)
			w.counts.WatchBroken(1)
		}
	}
}

// unnamed returns the label that the cluster's DNS gives a pod at this address without a hostname.
func unnamed(ip string) string { return strings.NewReplacer(".", "-", ":", "-").Replace(ip) }

// targets returns the endpoints, ready or not: a server that restarts keeps its keys, as with the DNS records of a
// Service that publishes addresses that are not ready. ok is false if the watch is not up to date. If a name has
// several addresses, the known one stays, unless its pod is terminating.
func (w *watch) targets(ctx context.Context, known []target) (found []target, ok bool) {
	select {
	case <-w.tried:
	case <-ctx.Done():
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.trouble != nil {
		return nil, false
	}
	type candidate struct {
		addr netip.AddrPort
		zone string
		rank int // the least is best
	}
	byName := make(map[string][]candidate)
	for _, s := range w.slices {
		for _, p := range s.Ports {
			if p.Name != w.service.port || !strings.EqualFold(p.Protocol, w.service.protocol) {
				continue
			}
			for _, e := range s.Endpoints {
				if len(e.Addresses) == 0 {
					continue
				}
				ip, err := netip.ParseAddr(e.Addresses[0])
				if err != nil {
					continue // of type FQDN
				}
				host := cmp.Or(e.Hostname, unnamed(ip.String()))
				name := serverName(host, strconv.Itoa(int(p.Port)))
				addr := netip.AddrPortFrom(ip, p.Port)
				rank := 0
				if e.Conditions.Terminating {
					rank = 2
				}
				if !slices.ContainsFunc(known,
					func(k target) bool { return k.name == name && k.addr == addr.String() }) {
					rank++
				}
				byName[name] = append(byName[name], candidate{addr, e.Zone, rank})
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		best := slices.MinFunc(byName[name], func(a, b candidate) int {
			return cmp.Or(a.rank-b.rank, a.addr.Compare(b.addr))
		})
		found = append(found, target{name: name, addr: best.addr.String(), weight: 1, zone: best.zone})
	}
	return found, true
}
