package vm

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"

	"mcmw/lab/cgroup"
	"mcmw/lab/experiment"
	"mcmw/lab/netspace"
	"mcmw/lab/testbed"
)

// newHosts returns machines that are removed at the test's end.
func newHosts(t *testing.T, machines map[string]experiment.Machine, delay time.Duration) *Hosts {
	t.Helper()
	return newDilated(t, machines, delay, 1)
}

func newDilated(t *testing.T, machines map[string]experiment.Machine, delay time.Duration, dilation float64) *Hosts {
	t.Helper()
	if _, err := able(os.Geteuid(), cgroup.Find); err != nil {
		t.Skip(err)
	}
	hosts, err := New(machines, delay, dilation)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, hosts.Close()) })
	return hosts
}

// megabits converts megabits per second to bytes per second.
func megabits(n float64) float64 { return n * 1e6 / 8 }

// slow is a machine that is smaller than this one in every respect.
var slow = experiment.Machine{Count: 1, CPUs: 0.5, Memory: 64 << 20, Upload: megabits(10), Download: megabits(20)}

// buckets returns the token buckets of an interface.
func buckets(t *testing.T, space *netspace.Namespace, name string) (found []*netlink.Tbf) {
	t.Helper()
	require.NoError(t, space.Configure(func(h *netlink.Handle) error {
		link, err := h.LinkByName(name)
		if err != nil {
			return err
		}
		assert.EqualValues(t, gsoSize, link.Attrs().GSOMaxSize, name)
		disciplines, err := h.QdiscList(link)
		for _, d := range disciplines {
			if tbf, ok := d.(*netlink.Tbf); ok {
				found = append(found, tbf)
			}
		}
		return err
	}))
	return found
}

func TestEachDirectionHasABucketOfTheRequestedRate(t *testing.T) {
	hosts := newHosts(t, map[string]experiment.Machine{"server": slow, "load": {Count: 2}}, 0)
	server := hosts.Of[testbed.Server][0].(*machine)
	for _, c := range []struct {
		name  string
		found []*netlink.Tbf
		rate  float64
	}{
		{"upload", buckets(t, server.space, cardName), slow.Upload},
		{"download", buckets(t, hosts.network.space, server.name), slow.Download},
	} {
		require.Len(t, c.found, 1, c.name)
		// The bucket counts headers in addition to the payload.
		assert.InEpsilon(t, c.rate*1514/1448, c.found[0].Rate, 1e-6, c.name)
		assert.InEpsilon(t, c.rate*1514/1448*0.5, c.found[0].Limit, 1e-3, c.name)
	}
	free := hosts.Of[testbed.Load][1].(*machine)
	assert.Empty(t, buckets(t, free.space, cardName))
	assert.Empty(t, buckets(t, hosts.network.space, free.name))
}

func TestInDilatedTimeMachinesHaveAFractionOfEverythingAndReportWhatWasRequested(t *testing.T) {
	large := experiment.Machine{
		Count: 1, CPUs: float64(2 * runtime.NumCPU()), Upload: megabits(100),
		Download: megabits(800),
	}
	hosts := newDilated(t, map[string]experiment.Machine{"server": slow, "load": large}, time.Millisecond, 4)
	server, load := hosts.Of[testbed.Server][0].(*machine), hosts.Of[testbed.Load][0].(*machine)
	found := buckets(t, server.space, cardName)
	require.Len(t, found, 1)
	assert.InEpsilon(t, slow.Upload/4*1514/1448, found[0].Rate, 1e-6)
	assert.InDelta(t, slow.CPUs/4, server.cpus, 1e-9)
	assert.InDelta(t, float64(runtime.NumCPU())/2, load.cpus, 1e-9, "half of this machine seems twice as large")
	machines, shortfalls := hosts.Machines, hosts.Shortfalls
	assert.InDelta(t, slow.Upload, machines[1].Upload, 1e-9)
	assert.InDelta(t, slow.CPUs, machines[1].CPUs, 1e-9)
	for _, s := range shortfalls {
		assert.NotContains(t, s, "processors", "there are enough")
	}
	if hosts.network.delayed != byNothing {
		assert.Equal(t, 4*time.Millisecond, hosts.network.delay)
		assert.InDelta(t, 0.001, machines[0].Delay, 1e-9)
	}
}

func TestIdleProcessorsDoNotSleepWhileThereAreMachines(t *testing.T) {
	hosts := newHosts(t, map[string]experiment.Machine{"server": slow}, 0)
	if hosts.awake == nil {
		t.Skipf("this machine can't keep its processors awake: %v", hosts.Shortfalls)
	}
	latency, err := os.ReadFile("/dev/cpu_dma_latency") // the least that any program wants, us
	require.NoError(t, err)
	assert.Equal(t, make([]byte, 4), latency)
	awake := hosts.awake
	require.NoError(t, hosts.Close())
	// Other tests may keep the processors awake at the same time, so the machine's own latency says nothing here.
	assert.ErrorIs(t, awake.Close(), os.ErrClosed)
}

func TestTheBucketIsSmallComparedToAMeasurementAndLargeEnoughForFrames(t *testing.T) {
	assert.EqualValues(t, 2*1514, burstFor(1000))
	assert.EqualValues(t, 25_000, burstFor(12_500_000))
	assert.EqualValues(t, minQueue, limitFor(1000))
	assert.EqualValues(t, 6_250_000, limitFor(12_500_000))
	assert.EqualValues(t, 1514, rateFor(1448))
}

func TestProgramsOfTwoMachinesReachEachOther(t *testing.T) {
	for _, c := range []struct {
		name  string
		delay time.Duration
	}{{"at once", 0}, {"after a while", 2 * time.Millisecond}} {
		t.Run(c.name, func(t *testing.T) {
			hosts := newHosts(t, map[string]experiment.Machine{"server": slow, "load": slow, "middleware": slow},
				c.delay)
			server, load := hosts.Of[testbed.Server][0].(*machine), hosts.Of[testbed.Load][0].(*machine)
			conn := dialEcho(t, load, server)
			// More than the bucket holds, in pieces larger than a frame.
			message := bytes.Repeat([]byte("0123456789"), 20_000)
			go func() { _, _ = conn.Write(message) }() // an error shows in the answer
			answer := make([]byte, len(message))
			_, err := io.ReadFull(conn, answer)
			require.NoError(t, err)
			assert.Equal(t, message, answer)
			third := hosts.Of[testbed.Middleware][0].(*machine)
			require.NoError(t, third.space.Configure(func(h *netlink.Handle) error {
				link, err := h.LinkByName(cardName)
				require.NoError(t, err)
				assert.Less(t, link.Attrs().Statistics.RxBytes, uint64(10_000),
					"packets between two machines reach no third one")
				return nil
			}))
		})
	}
}

// dialEcho connects one machine to a program in another one that echoes everything.
func dialEcho(t *testing.T, from, to *machine) net.Conn {
	t.Helper()
	port, err := to.FreePort(context.Background())
	require.NoError(t, err)
	address := net.JoinHostPort(to.Address(), strconv.Itoa(port))
	var listener net.Listener
	require.NoError(t, to.space.Do(func() error {
		listener, err = net.Listen("tcp", address)
		return err
	}))
	t.Cleanup(func() { listener.Close() })
	go func() {
		conn, err := listener.Accept()
		if err == nil {
			_, _ = io.Copy(conn, conn) // until the other end closes
			conn.Close()
		}
	}()
	var conn net.Conn
	require.NoError(t, from.space.Do(func() error {
		conn, err = net.Dial("tcp", address)
		return err
	}))
	t.Cleanup(func() { conn.Close() })
	return conn
}

func TestAProgramStartsWithTheLimitsOfItsMachine(t *testing.T) {
	hosts := newHosts(t, map[string]experiment.Machine{"server": slow}, 0)
	server := hosts.Of[testbed.Server][0].(*machine)
	var out bytes.Buffer
	p, err := server.Start(context.Background(), testbed.Program{
		Name: "shell", Path: "sh", Stdout: &out, CPUs: []int{0},
		Args: []string{
			"-c", `echo "$0 $1"; cat /proc/self/cgroup /proc/net/dev; cat "$2"/c*`, "a b", "c",
			server.group.ProcessFiles()[0][:strings.LastIndexByte(server.group.ProcessFiles()[0], '/')],
		},
	})
	require.NoError(t, err)
	<-p.Done()
	require.Zero(t, p.ExitCode(), "%v", p.Ended())
	text := out.String()
	assert.True(t, strings.HasPrefix(text, "a b c\n"), text)
	assert.Contains(t, text, "/server-0\n", "its control group")
	assert.Contains(t, text, "eth0:", "its interface")
	assert.Contains(t, text, "10000", "half a processor in periods of 20 ms, read back from the kernel")

	_, err = server.Start(context.Background(), testbed.Program{Name: "none", Path: "/nowhere/program"})
	require.ErrorIs(t, err, fs.ErrNotExist)
	sleeper, err := server.Start(context.Background(),
		testbed.Program{Name: "sleep", Path: "sleep", Args: []string{"1000"}})
	require.NoError(t, err)
	command, err := os.ReadFile("/proc/" + strconv.Itoa(sleeper.Pid()) + "/comm")
	require.NoError(t, err)
	assert.Contains(t, []string{"sleep\n", "sh\n"}, string(command), "its id is the program's")
	sleeper.Stop(syscall.SIGKILL)
}

func TestMachinesUseTheCongestionControlThatIsReported(t *testing.T) {
	hosts := newHosts(t, map[string]experiment.Machine{"server": slow}, 0)
	space, err := netspace.New()
	require.NoError(t, err)
	defer space.Close()
	want, err := controlCongestion(space) // cubic, where this machine allows it
	require.NoError(t, err)
	require.NoError(t, hosts.Of[testbed.Server][0].(*machine).space.Do(func() error {
		got, err := os.ReadFile(congestionFile)
		assert.Equal(t, want+"\n", string(got))
		return err
	}))
}

func TestAMachineThatIsTooLargeIsReducedAndReported(t *testing.T) {
	f := features{cpus: 2, memory: 8 << 30, congestion: "cubic"}
	large := experiment.Machine{Preset: "azure-a4", Count: 2, CPUs: 8, Memory: 14 << 30, Upload: 1}
	assert.Equal(t, experiment.Machine{Preset: "azure-a4", Count: 2, Upload: 1}, f.bounded(large))
	assert.Equal(t, slow, f.bounded(slow))
	assert.Equal(t, []string{
		"the middleware machines (azure-a4) have 2 processors instead of 8: this machine has no more",
		"the middleware machines (azure-a4) have 8 GiB of memory instead of 14 GiB: this machine has no more",
		"the machines have 4.5 processors together, but share the 2 of this machine: load that needs more runs " +
			"slower than on real machines",
		"the machines have 16.1 GiB of memory together, but share the 8 GiB of this machine",
		"packets are not delayed by 1ms: this kernel cannot delay them (CONFIG_NET_SCH_NETEM, module sch_netem; or " +
			"CONFIG_TUN, module tun, and CONFIG_NET_ACT_MIRRED, module act_mirred)",
	}, f.shortfalls(map[string]experiment.Machine{"middleware": large, "server": slow}, time.Millisecond))
	assert.Empty(t, f.shortfalls(map[string]experiment.Machine{"server": slow}, 0))
	f.congestion = "bbr"
	assert.Equal(t,
		[]string{"TCP uses the congestion control bbr instead of cubic; to change that: sysctl -w " +
			"net.ipv4.tcp_allowed_congestion_control=\"reno cubic\""},
		f.shortfalls(nil, 0))
}

func TestAMachineThatCannotMakeTheTestbedIsRefused(t *testing.T) {
	_, err := able(1000, cgroup.Find)
	require.ErrorContains(t, err, "needs root; run this as root, or choose the testbed local")
	_, err = able(0, func() (*cgroup.Tree, error) { return nil, cgroup.ErrNone })
	require.ErrorIs(t, err, cgroup.ErrNone)
}

func TestPacketsAreDelayedOrTheMissingDelayIsReported(t *testing.T) {
	const delay = 3 * time.Millisecond
	hosts := newHosts(t, map[string]experiment.Machine{"server": slow, "load": slow}, delay)
	machines, shortfalls := hosts.Machines, hosts.Shortfalls
	load, server := hosts.Of[testbed.Load][0].(*machine), hosts.Of[testbed.Server][0].(*machine)
	assert.Len(t, buckets(t, server.space, cardName), 1, "the bucket is there in any case")
	if hosts.network.delayed == byNothing {
		assert.Contains(t, strings.Join(shortfalls, "\n"), "packets are not delayed by 3ms")
		assert.Zero(t, machines[0].Delay)
		return
	}
	assert.InDelta(t, delay.Seconds(), machines[0].Delay, 1e-9)
	assert.Equal(t, string(hosts.network.delayed), machines[0].DelayedBy)
	assert.NotContains(t, strings.Join(shortfalls, "\n"), "packets are not delayed")
	conn := dialEcho(t, load, server)
	shortest := time.Hour
	for range 10 {
		sent := time.Now()
		_, err := conn.Write([]byte("x"))
		require.NoError(t, err)
		_, err = io.ReadFull(conn, make([]byte, 1))
		require.NoError(t, err)
		shortest = min(shortest, time.Since(sent))
	}
	assert.GreaterOrEqual(t, shortest, 2*(delay-grain-mostLate), "there and back")
}

func TestClosingLeavesNothing(t *testing.T) {
	spaces := func() (n int) {
		entries, err := os.ReadDir("/proc/self/fd")
		require.NoError(t, err)
		for _, entry := range entries {
			if to, err := os.Readlink("/proc/self/fd/" + entry.Name()); err == nil && strings.HasPrefix(to, "net:") {
				n++
			}
		}
		return n
	}
	before := spaces()
	hosts := newHosts(t, map[string]experiment.Machine{"server": slow, "load": slow}, 0)
	assert.Equal(t, before+4, spaces(), "two machines, the probe, the bridge")
	files := hosts.Of[testbed.Server][0].(*machine).group.ProcessFiles()
	links, err := net.Interfaces()
	require.NoError(t, err)
	for _, link := range links {
		assert.NotContains(t, []string{bridgeName, "server-0", "load-0"}, link.Name,
			"all interfaces are in other namespaces")
	}
	require.NoError(t, hosts.Close())
	assert.Equal(t, before, spaces())
	for _, file := range files {
		assert.NoFileExists(t, file)
	}
}
