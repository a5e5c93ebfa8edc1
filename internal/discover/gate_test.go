package discover_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mcmw/internal/discover"
	"mcmw/internal/mctest"
	"mcmw/internal/route"
)

// gates returns Gates in a pod of an API server, and their log.
func gates(t *testing.T) (a *mctest.APIServer, g *discover.Gates, log *bytes.Buffer) {
	a, log = mctest.StartAPIServer(t), new(bytes.Buffer)
	return a, &discover.Gates{
		Cluster: discover.Cluster{URL: a.URL(), Dir: a.Dir}, Log: slog.New(slog.NewTextHandler(log, nil)),
	}, log
}

// gated returns the pod of a server with the gate.
func gated(uid, ip string) mctest.Pod {
	return mctest.Pod{UID: uid, IP: ip, Gates: []string{"other", discover.Gate}}
}

func TestAPodIsToldOnceWhetherItsServerIsRefilledAndAgainAfterAMinute(t *testing.T) {
	t.Parallel()
	a, g, log := gates(t)
	a.PutPod("memcached-0", gated("first", "10.0.0.1"))
	zero := route.Server{Name: "memcached-0", Addr: "10.0.0.1:11211", Entry: watched}
	status := func() string { return a.Pod("memcached-0").Conditions[discover.Gate] }
	now := time.Now()
	look := func(after time.Duration, refilled bool) {
		now = now.Add(after)
		g.Look(t.Context(), now, map[route.Server]bool{zero: refilled})
	}
	look(0, false)
	require.Equal(t, "False", status())
	look(time.Second, true)
	require.Equal(t, "True", status())
	look(time.Second, true)
	require.Equal(t, 2, a.Pod("memcached-0").Patches)

	a.PutPod("memcached-0", gated("first", "10.0.0.1")) // another mcmw, or somebody else, has changed it
	look(58*time.Second, true)
	require.Empty(t, status())
	look(2*time.Second, true)
	require.Equal(t, "True", status())
	look(time.Hour, true)
	require.Equal(t, 1, a.Pod("memcached-0").Patches, "it has the condition")

	a.PutPod("memcached-0", gated("second", "10.0.0.2"))
	now = now.Add(time.Second)
	g.Look(t.Context(), now, nil) // the new pod is not known yet
	require.Empty(t, status())
	zero.Addr = "10.0.0.2:11211"
	look(time.Second, true)
	require.Equal(t, "True", status())
	require.Empty(t, log)
}

func TestOnlyThePodAtTheServersAddressWithTheGateIsTold(t *testing.T) {
	t.Parallel()
	a, g, log := gates(t)
	a.PutPod("memcached-0", gated("old", "10.0.0.1"))
	a.PutPod("memcached-1", mctest.Pod{UID: "without", IP: "10.0.0.2"})
	a.PutPod("memcached-2", gated("named", "10.0.0.3"))
	a.PutPod("memcached-3", gated("other", "10.0.0.4"))
	now := time.Now()
	look := func() {
		now = now.Add(10 * time.Second)
		g.Look(t.Context(), now, map[route.Server]bool{
			{Name: "memcached-0", Addr: "10.0.0.9:11211", Entry: watched}:           true,
			{Name: "memcached-1", Addr: "10.0.0.2:11211", Entry: watched}:           true,
			{Name: "blue/memcached-2:1121", Addr: "10.0.0.3:1121", Entry: watched}:  true,
			{Name: "memcached-3", Addr: "10.0.0.4:11211"}:                           true,
			{Name: "memcached-3", Addr: "10.0.0.4:11211", Entry: "srv+" + service}:  true,
			{Name: "10-0-0-5", Addr: "10.0.0.5:11211", Entry: watched}:              true,
			{Name: "memcached-3", Addr: "unix:/run/memcached.sock", Entry: watched}: true,
		})
	}
	look()
	for i, want := range []string{"", "", "True", ""} {
		pod := fmt.Sprintf("memcached-%d", i)
		require.Equal(t, want, a.Pod(pod).Conditions[discover.Gate], pod)
	}
	a.PutPod("memcached-0", gated("new", "10.0.0.9"))
	look()
	require.Equal(t, "True", a.Pod("memcached-0").Conditions[discover.Gate])
	require.Empty(t, log)
}

func TestAPodThatCannotBeToldIsReportedOnceAndToldWhenItCan(t *testing.T) {
	t.Parallel()
	a, g, log := gates(t)
	a.PutPod("memcached-0", gated("first", "10.0.0.1"))
	now := time.Now()
	look := func(after time.Duration) {
		now = now.Add(after)
		g.Look(t.Context(), now, map[route.Server]bool{
			{Name: "memcached-0", Addr: "10.0.0.1:11211", Entry: watched}: true,
		})
	}
	a.Refuse(http.StatusForbidden)
	look(0)
	look(5 * time.Second)
	require.Equal(t, 1, strings.Count(log.String(), "\n"), log)
	require.Contains(t, log.String(), "the API server answers 403 Forbidden: not for you")
	require.Contains(t, log.String(), "server=memcached-0")
	a.Refuse(0)
	look(4 * time.Second)
	require.Empty(t, a.Pod("memcached-0").Conditions)
	look(time.Second)
	require.Equal(t, "True", a.Pod("memcached-0").Conditions[discover.Gate])
}
