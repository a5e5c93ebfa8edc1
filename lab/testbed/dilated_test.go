package testbed

import (
	"context"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/lab/experiment"
)

// askedHost remembers the programs that it was asked to start, and starts others that end at once.
type askedHost struct {
	local
	asked []Program
}

func (h *askedHost) Start(ctx context.Context, p Program) (Process, error) {
	h.asked = append(h.asked, p)
	return h.local.Start(ctx, Program{Name: p.Name, Path: "true"})
}

func TestInDilatedTimeEverythingTakesLonger(t *testing.T) {
	ctx, host := context.Background(), &askedHost{}
	bed := OnHosts(Hosts{Of: map[Role][]Host{Load: {host}}, Dilation: 4}, Programs{}, nil).(*onHosts)
	v := defaults()
	v[experiment.ThinkTime], v[experiment.MiddlewareFlags] = "3ms", "--stall-after 1s"
	slower := bed.slowed(v)
	assert.Equal(t, "12ms", slower[experiment.ThinkTime])
	assert.Equal(t, "0s", slower[experiment.ServerDelay])
	assert.Equal(t, "--timeout 4s --stall-after 400ms --stall-after 1s", slower[experiment.MiddlewareFlags],
		"the experiment's own flags come last and take precedence")
	assert.Equal(t, "3ms", v[experiment.ThinkTime], "the experiment's own values are unchanged")

	server, err := local{}.Start(ctx, Program{Name: "server", Path: "sleep", Args: []string{"1000"}})
	require.NoError(t, err)
	defer server.Stop(syscall.SIGKILL)
	d := &deployment{t: bed, servers: []Member{{Process: server, Address: "a:1"}}}
	outputs, err := d.Measure(ctx, Measurement{Values: v, WarmUp: time.Second, Duration: 10 * time.Second, Seed: 7})
	require.NoError(t, err)
	assert.InDelta(t, 4, outputs.Dilation, 0)
	load := strings.Join(host.asked[0].Args, " ")
	assert.Contains(t, load, "--warm-up 4s --test-time 40s --seed 7 ")
	assert.Contains(t, load, "--think-time 12ms")

	bed.hosts.Dilation = 0
	assert.Equal(t, v, bed.slowed(v))
}
