package process

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
)

func TestSettingsInTheEnvironmentDoNotReachMeasuredPrograms(t *testing.T) {
	t.Setenv("MCMW_DEPTH", "1")
	t.Setenv("OTHER_SETTING", "1")
	p, err := Start("env", exec.Command("env"))
	require.NoError(t, err)
	<-p.done
	assert.NotContains(t, p.log.String()+strings.Join(p.cmd.Env, " "), "MCMW_DEPTH")
	assert.Contains(t, p.cmd.Env, "OTHER_SETTING=1")
}

func TestAProgramThatIgnoresTheSignalIsKilled(t *testing.T) {
	p, err := Start("stubborn", exec.Command("sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.05; done"))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return p.log.String() == "ready" }, mctest.Patience, mctest.Tick)
	limit := 100 * time.Millisecond
	if mctest.Long() {
		limit = stopTimeout
	}
	p.stopWithin(limit, syscall.SIGTERM)
	assert.Contains(t, p.cmd.ProcessState.String(), "killed")
}

func TestAFreePortIsNoneThatTheKernelGivesToOthers(t *testing.T) {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	require.NoError(t, err)
	var low, high int
	_, err = fmt.Sscan(string(text), &low, &high)
	require.NoError(t, err)
	if low <= firstPort {
		t.Skipf("the kernel's range begins at %d and leaves no room", low)
	}
	before := map[int]bool{}
	for range 2000 { // some 5 % of the ports: by chance some hundred would be returned twice
		port, err := FreePort(Loopback)
		require.NoError(t, err)
		assert.Less(t, port, low)
		assert.False(t, before[port], "port %d is returned twice", port)
		before[port] = true
	}
	_, err = FreePort("192.0.2.1")
	assert.ErrorContains(t, err, "looking for a free port: ")
}

func TestTheTailKeepsTheEnd(t *testing.T) {
	var log Tail
	for i := range 1000 {
		fmt.Fprintf(&log, "line %d\n", i)
	}
	assert.True(t, strings.HasSuffix(log.String(), "line 998\nline 999"))
	assert.LessOrEqual(t, len(log.String()), maxLog)
}

func TestTheChildrenOfAProgramAreKilledWithIt(t *testing.T) {
	const isLab = "TEST_IS_A_LAB"
	if os.Getenv(isLab) != "" {
		p, err := Start("program of a lab", exec.Command("sleep", "1000"))
		require.NoError(t, err)
		fmt.Println(p.Pid())
		<-p.Done()
	}
	lab := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
	lab.Env = []string{isLab + "=1"}
	for name, wrapper := range map[string]*exec.Cmd{
		"a program's own child, in its process group": exec.Command("sh", "-c", "sleep 1000 & echo $!; wait"),
		"a lab's program, in another one":             lab,
	} {
		p, err := Start("wrapper", wrapper)
		require.NoError(t, err)
		require.Eventually(t, func() bool { return p.log.String() != "" }, mctest.Patience, mctest.Tick)
		child, err := strconv.Atoi(p.log.String())
		require.NoError(t, err)
		p.Stop(syscall.SIGKILL)
		require.Eventually(t, func() bool {
			// empty once it has ended, until its parent waits for it
			command, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", child))
			return err != nil || len(command) == 0
		}, mctest.Patience, mctest.Tick, name)
	}
}
