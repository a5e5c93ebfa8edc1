package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
)

// writers is a load over several connections, each with one request at a time, that knows the right answers.
type writers struct {
	stop  atomic.Bool
	done  []atomic.Int64 // rounds, by connection
	ended sync.WaitGroup

	mu     sync.Mutex // guards everything below
	errors []string   // answers other than values, STORED and misses
	wrong  []string   // values other than the last one stored
}

// startWriters begins a load on addr, which ends with the test.
func startWriters(t *testing.T, addr string) *writers {
	t.Helper()
	w := &writers{done: make([]atomic.Int64, 4)}
	for i := range w.done {
		client := mctest.MustDial(t, addr)
		client.Timeout = mctest.Patience
		w.ended.Go(func() { w.write(client, i) })
	}
	t.Cleanup(w.end)
	return w
}

func (w *writers) end() {
	w.stop.Store(true)
	w.ended.Wait()
}

// failed records an unexpected answer in list.
func (w *writers) failed(list *[]string, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	*list = append(*list, fmt.Sprintf(format, args...))
}

// write repeatedly stores new values under its own keys, and reads the value it has just stored and earlier ones.
// Nobody else writes these keys, so any value but the last is wrong. A miss is not wrong, because keys move.
func (w *writers) write(client *mctest.Client, number int) {
	const keys, several = 50, 6
	key := func(i int) string { return fmt.Sprintf("key-%d-%d", (number+i)%keys, number) }
	last := map[string]string{} // by key; without keys whose value is unknown after an error
	for i := 0; !w.stop.Load(); i++ {
		value := strings.Repeat(strconv.Itoa(i), 1+i%7)
		reply, err := client.Do(fmt.Sprintf("set %s 0 0 %d\r\n%s\r\n", key(i), len(value), value))
		switch {
		case err != nil:
			w.failed(&w.errors, "set: %v", err)
			return
		case reply == "STORED\r\n":
			last[key(i)] = value
		default:
			w.failed(&w.errors, "set: %q", reply)
			delete(last, key(i))
		}
		asked := make([]string, several)
		for j := range asked {
			asked[j] = key(i + keys - j*7)
		}
		for _, line := range []string{"get " + key(i), "get " + strings.Join(asked, " ")} {
			reply, err := client.Do(line + "\r\n")
			if err != nil {
				w.failed(&w.errors, "get: %v", err)
				return
			}
			items, err := mctest.ParseValues(reply)
			if err != nil {
				w.failed(&w.errors, "get: %q", reply)
			}
			for _, item := range items {
				want, known := last[item.Key]
				if known && item.Value != want || !slices.Contains(asked, item.Key) {
					w.failed(&w.wrong, "%s: %q, not %q", item.Key, item.Value, want)
				}
			}
		}
		w.done[number].Add(1)
	}
}

// proceed waits until every connection has done some more rounds.
func (w *writers) proceed(t *testing.T) {
	t.Helper()
	for i := range w.done {
		before := w.done[i].Load()
		if !assert.Eventually(t, func() bool { return w.done[i].Load() >= before+20 }, mctest.Patience, mctest.Tick) {
			w.mu.Lock()
			defer w.mu.Unlock()
			require.FailNow(t, "a connection makes no progress", "%d, errors: %v", i, w.errors)
		}
	}
}

// results ends the load and returns what went wrong.
func (w *writers) results(t *testing.T) (errors, wrong []string) {
	t.Helper()
	w.proceed(t)
	w.end()
	return w.errors, w.wrong
}

// awaitLog waits until the log has text.
func awaitLog(t *testing.T, log *output, text string) {
	t.Helper()
	require.Eventually(t, func() bool { return strings.Contains(log.String(), text) }, mctest.Patience, mctest.Tick,
		"no %q in:\n%s", text, log)
}

func TestARefusedConfigurationChangesNothingUnderLoad(t *testing.T) {
	server := mctest.StartMemcached(t)
	file := filepath.Join(t.TempDir(), "mcmw.yaml")
	write := func(more string) {
		next := file + ".next"
		text := "listen: 127.0.0.1:0\nadmin: off\nwatch-interval: 10ms\nservers: [" + server.Addr() + "]\n"
		require.NoError(t, os.WriteFile(next, []byte(text+more), 0o600))
		require.NoError(t, os.Rename(next, file))
	}
	write("")
	p := startProcess(t, "serve", "--config", file)
	address := awaitEntry(t, p.stderr, "ready").Listen[0]
	w := startWriters(t, address)
	w.proceed(t)
	write("depth: 0\n")
	awaitLog(t, p.stderr, `mcmw.yaml:5: depth: \"0\" is too small; accepted: 1 to 4096 requests"`)
	write("procs: 7\n")
	awaitLog(t, p.stderr,
		`mcmw.yaml:5: procs: \"7\" cannot replace \"auto\" while mcmw runs; accepted: a restart of mcmw"`)

	stats := func() map[string]string {
		values := map[string]string{}
		for line := range strings.Lines(mctest.MustDial(t, address).MustDo(t, "stats\r\n")) {
			if fields := strings.Fields(line); len(fields) == 3 {
				values[fields[1]] = fields[2]
			}
		}
		return values
	}
	before := stats()
	require.Equal(t, "0", before["mcmw_config_reloads_applied"])
	require.Equal(t, "2", before["mcmw_config_reloads_refused"])
	require.Equal(t, "128", before["mcmw_depth"])

	write("depth: 7\n")
	awaitLog(t, p.stderr, `"changes":["depth: 128 -> 7"]`)
	after := stats()
	require.Equal(t, "7", after["mcmw_depth"])
	require.Equal(t, "1", after["mcmw_config_reloads_applied"])
	require.NotEqual(t, before["mcmw_config_hash"], after["mcmw_config_hash"])
	require.Equal(t, before["mcmw_config_servers_hash"], after["mcmw_config_servers_hash"])
	errors, wrong := w.results(t)
	require.Empty(t, wrong)
	require.Empty(t, errors)
}

func TestAFileOfSecretsThatEverybodyCanReadIsAWarningAtStartAndAtReload(t *testing.T) {
	users := filepath.Join(t.TempDir(), "users")
	require.NoError(t, os.WriteFile(users, []byte("a:b\n"), 0o600))
	require.NoError(t, os.Chmod(users, 0o604))
	p := startProcess(t, "serve", "-l", "127.0.0.1:0", "--admin", "off", "-m", mctest.StartMemcached(t).Addr(),
		"--auth-file", users)
	awaitEntry(t, p.stderr, "ready")
	require.Contains(t, p.stderr.String(), users+" holds secrets and has mode 0604")

	require.NoError(t, os.Chmod(users, 0o644))
	require.NoError(t, p.Process.Signal(syscall.SIGHUP))
	awaitLog(t, p.stderr, users+" holds secrets and has mode 0644")
}

// body returns the body of the answer to a GET of url.
func body(t *testing.T, url string) string {
	t.Helper()
	client := &http.Client{Timeout: mctest.Patience, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get(url)
	require.NoError(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return string(text)
}

// statefulSet is a set of memcached servers under the names of a StatefulSet's pods, all with the same port, and their
// DNS server.
type statefulSet struct {
	*mctest.DNS
	port int
	pods []*mctest.Server // by number
}

const (
	setService = "_memcache._tcp.memcached.ns.svc.cluster.local"
	setDomain  = "memcached.ns.svc.cluster.local"
)

func (s *statefulSet) host(pod int) string { return fmt.Sprintf("memcached-%d.%s", pod, setDomain) }

// name returns the name of a pod's server.
func (s *statefulSet) name(pod int) string { return fmt.Sprintf("memcached-%d:%d", pod, s.port) }

// setAddresses is the number of addresses for the pods of a set.
const setAddresses = 10

// setAddress returns address i for pods. Other processes that run this test use other addresses.
func setAddress(i int) string {
	pid := os.Getpid()
	return fmt.Sprintf("127.%d.%d.%d", 64+pid%64, pid/64%256, 1+i)
}

// commonPort returns a port that is free at all addresses for pods.
func commonPort(t *testing.T) int {
	t.Helper()
	for range 100 {
		var listeners []net.Listener
		port := 0
		for i := range setAddresses {
			l, err := net.Listen("tcp", net.JoinHostPort(setAddress(i), strconv.Itoa(port)))
			if err != nil {
				break
			}
			listeners = append(listeners, l)
			port = l.Addr().(*net.TCPAddr).Port
		}
		for _, l := range listeners {
			require.NoError(t, l.Close())
		}
		if len(listeners) == setAddresses {
			return port
		}
	}
	require.FailNow(t, "no port is free at all addresses")
	return 0
}

// startSet starts a set with n pods, each with an address of its own.
func startSet(t *testing.T, n int) *statefulSet {
	t.Helper()
	s := &statefulSet{DNS: mctest.StartDNS(t), port: commonPort(t)}
	for i := range n {
		s.start(t, i, setAddress(i))
	}
	s.publish()
	return s
}

// start starts a pod at an address. The DNS server has its address at once, and its SRV record after the next publish.
func (s *statefulSet) start(t *testing.T, pod int, address string) {
	t.Helper()
	server := mctest.StartMemcached(t, "-l", address, "-p", strconv.Itoa(s.port))
	s.pods = append(s.pods[:min(pod, len(s.pods))],
		append([]*mctest.Server{server}, s.pods[min(pod+1, len(s.pods)):]...)...)
	s.SetAddrs(s.host(pod), address)
}

// publish gives the service the SRV records of all pods.
func (s *statefulSet) publish() {
	var targets []mctest.Target
	for i := range s.pods {
		targets = append(targets, mctest.Target{Host: s.host(i), Port: s.port, Weight: 100 / len(s.pods)})
	}
	s.SetSRV(setService, targets...)
}

// serve starts mcmw with the set's servers and returns it with its address for clients.
func (s *statefulSet) serve(t *testing.T, args ...string) (p *process, address string) {
	t.Helper()
	p = startProcess(t, append([]string{
		"serve", "-p", "0", "--admin", "off", "-t", "2", "--resolver", s.Addr(), "--resolve-interval", "100ms",
		"--remove-after", "5",
		"--timeout", "20s", "--connect-timeout", "20s",
		"-m", "srv+" + setService + ".",
	}, args...)...)
	return p, awaitEntry(t, p.stderr, "ready").Listen[0]
}

func TestAPodThatMovesLosesOnlyItsOwnRequests(t *testing.T) {
	for name, args := range map[string][]string{
		"replicated": nil,
		"sharded":    {"--replicas", "1", "--sharded"},
	} {
		t.Run(name, func(t *testing.T) {
			s := startSet(t, 3)
			p, address := s.serve(t, args...)
			require.Equal(t, []string{s.name(0), s.name(1), s.name(2)}, awaitEntry(t, p.stderr, "ready").Servers)
			w := startWriters(t, address)
			w.proceed(t)

			old := s.pods[1]
			s.start(t, 1, setAddress(7))
			awaitLog(t, p.stderr, fmt.Sprintf(`"moved":["%s: %s -> %s"]`, s.name(1), old.Addr(), s.pods[1].Addr()))
			w.proceed(t)
			old.Stop() // mcmw no longer uses it
			w.proceed(t)
			stored := s.pods[1].Stat("cmd_set")
			require.Eventually(t, func() bool { return s.pods[1].Stat("cmd_set") > stored }, mctest.Patience,
				mctest.Tick, "the new address is in use")

			errors, wrong := w.results(t)
			require.Empty(t, wrong)
			for _, e := range errors {
				require.Contains(t, e, s.name(1), "only requests to the pod that moved may fail")
			}
			require.LessOrEqual(t, len(errors), len(w.done), "at most one request of each connection")
		})
	}
}

func TestServeWaitsForNamesOfServersAndSaysSo(t *testing.T) {
	s := startSet(t, 1)
	s.Fail("")
	p := startProcess(t, "serve", "-p", "0", "--admin", "127.0.0.1:0", "--resolver", s.Addr(), "-m",
		"srv+"+setService+".")
	admin := "http://" + awaitEntry(t, p.stderr, "admin server listens").Address
	awaitLog(t, p.stderr,
		`"msg":"waiting for the names of servers","error":"srv+`+setService+`.: lookup `+setService+`. on `+s.Addr()+`: server misbehaving"`)
	require.Equal(t, http.StatusOK, status(t, admin+"/livez"))
	require.Equal(t, "not ready: the names of the memcached servers have not been found yet\n",
		body(t, admin+"/readyz"))
	s.Heal()
	ready := awaitEntry(t, p.stderr, "ready")
	require.Equal(t, []string{s.name(0)}, ready.Servers)
	require.Equal(t, "STORED\r\n", mctest.MustDial(t, ready.Listen[0]).MustDo(t, "set k 0 0 1\r\nv\r\n"))
	require.Equal(t, http.StatusOK, status(t, admin+"/readyz"))
	require.Contains(t, body(t, admin+"/metrics"), "mcmw_server_lookups_total{result=\"ok\"}")
}

func TestMcmwUsesTheNewAddressOfAServerThatItWaitsForAtTheStart(t *testing.T) {
	s := startSet(t, 2)
	s.pods[1].Stop()
	p := startProcess(t, "serve", "-p", "0", "--admin", "off", "--ready", "all", "--resolver", s.Addr(),
		"--resolve-interval", "100ms", "-m", "srv+"+setService+".")
	require.Equal(t, s.name(1), awaitEntry(t, p.stderr, "waiting for a server").Server)
	s.start(t, 1, setAddress(7))
	awaitEntry(t, p.stderr, "ready")
}

func TestASignalEndsTheWaitForNames(t *testing.T) {
	p := startProcess(t, "serve", "-p", "0", "--admin", "127.0.0.1:0", "--resolver", mctest.StartDNS(t).Addr(), "-m",
		"dns+nowhere.test.")
	awaitLog(t, p.stderr, "waiting for the names of servers")
	require.NoError(t, p.Process.Signal(syscall.SIGTERM))
	require.NoError(t, p.exit(t))
}
