package load

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestTheLimitIsTheReasonWhyThreadsHardlySlept(t *testing.T) {
	for _, tt := range []struct {
		name    string
		cpu     time.Duration
		waited  time.Duration
		threads int
		want    Limit
	}{
		{"asleep half the time", 500 * time.Millisecond, 0, 1, LimitNone},
		{"running all the time", 990 * time.Millisecond, 0, 1, LimitGenerator},
		{"one of two threads running", 990 * time.Millisecond, 0, 2, LimitNone},
		{"both threads running", 1980 * time.Millisecond, 0, 2, LimitGenerator},
		{"waiting for a core", 500 * time.Millisecond, 480 * time.Millisecond, 1, LimitMachine},
		{"waiting longer than the run", 500 * time.Millisecond, 3 * time.Second, 1, LimitMachine},
	} {
		got := Usage{User: tt.cpu / 4, System: tt.cpu - tt.cpu/4, Waited: tt.waited}.Over(time.Second, tt.threads)
		assert.Equal(t, tt.want, got.Limit, tt.name)
		assert.LessOrEqual(t, got.BusyOrWaiting, 1.0, tt.name)
		assert.Equal(t, tt.cpu, got.CPU(), tt.name)
	}
	assert.Zero(t, Usage{}.Over(0, 1).Busy, "no time, no share")
}
