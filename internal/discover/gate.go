package discover

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"mcmw/internal/route"
)

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
