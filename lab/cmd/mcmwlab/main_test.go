package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/lab/condition"
	"mcmw/lab/load"
	"mcmw/lab/record"
)

// lab runs the program and returns its output.
func lab(ctx context.Context, args ...string) (stdout, stderr string, err error) {
	var out, errs bytes.Buffer
	err = run(ctx, args, &out, &errs)
	return out.String(), errs.String(), err
}

// output runs the program, which must succeed, and returns its standard output.
func output(t *testing.T, args ...string) string {
	t.Helper()
	stdout, stderr, err := lab(t.Context(), args...)
	require.NoError(t, err, stderr)
	return stdout
}

// requireRefused requires that a command line fails with an exit code and an error with a text, without a result.
func requireRefused(t *testing.T, code int, want string, args ...string) {
	t.Helper()
	stdout, _, err := lab(t.Context(), args...)
	require.ErrorContains(t, err, want, args)
	assert.Equal(t, code, exitCode(err, io.Discard), args)
	assert.Empty(t, stdout, args)
}

// makeRecord makes a record of complete runs and returns its directory.
func makeRecord(t *testing.T, m record.Manifest, runs ...record.Run) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), m.Name)
	r, err := record.Create(dir, m)
	require.NoError(t, err)
	for _, run := range runs {
		run.State, run.Seconds = record.Complete, cmp.Or(run.Seconds, 1)
		require.NoError(t, r.Add(run))
	}
	require.NoError(t, r.Close())
	return dir
}

// results returns the values of a source by metric.
func results(source string, values map[string]float64) (all []record.Value) {
	for metric, value := range values {
		all = append(all, record.Value{Source: source, Metric: metric, Value: value})
	}
	return all
}

func TestHelpGroupsCommandsAndHidesPlumbing(t *testing.T) {
	help := output(t, "--help")
	last := 0
	for _, want := range []string{
		"Measure:", "  load ", "Read:", "  compare ", "Explain:", "  model ", "Prove:", "  verify ", "Testbeds:",
		"  cleanup ",
	} {
		at := strings.Index(help, "\n"+want)
		require.Greater(t, at, last, want)
		last = at
	}
	for _, hidden := range []string{"agent", "wait"} {
		require.NotContains(t, help, "\n  "+hidden+" ")
		_, _, err := lab(t.Context(), hidden, "--help")
		require.NoError(t, err, "a hidden command can be called")
	}
	requireRefused(t, exitUsage, "no command fill any more: it is a script of the repository", "fill", "page.md")
}

func TestLoadPrintsATableAndWritesJSON(t *testing.T) {
	server := mctest.StartMemcached(t)
	host, port, err := net.SplitHostPort(server.Addr())
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "result.json")
	stdout, stderr, err := lab(context.Background(), "load", "-s", host, "-p", port, "-c", "3", "-t", "2", "--ratio",
		"1:3", "--pipeline", "4",
		"-d", "100", "--key-minimum", "10", "--key-maximum", "19", "--key-prefix", "mine-", "--multi-key-get", "2",
		"-n", "40",
		"--populate", "--data-verify", "--json-out-file", file)
	require.NoError(t, err)
	for _, want := range []string{
		"6 connections, 2 threads, pipeline 4, SET:GET 1:3, 2 keys per GET, values of 100 bytes, 10 keys",
		"p99.9 ms", "SET", "GET", "total", "generator: ",
	} {
		assert.Contains(t, stdout, want)
	}
	assert.Empty(t, stderr)
	var result load.Result
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &result))
	assert.EqualValues(t, 240, result.Total.Requests)
	assert.EqualValues(t, 60, result.Commands["SET"].Requests)
	assert.EqualValues(t, 360, result.Total.Hits)
	assert.NotEmpty(t, server.Stat("curr_items"))
	value, ok := server.Get("mine-10")
	assert.True(t, ok)
	assert.Len(t, value, 100)
}

func TestLoadWritesNothingButJSONToStandardOutputWhenAsked(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "memcached.sock")
	mctest.StartMemcached(t, "-s", socket)
	stdout := output(t, "load", "--target", "unix:"+socket, "-c", "1", "-n", "10", "--json-out-file", "-")
	var result load.Result
	require.NoError(t, json.Unmarshal([]byte(stdout), &result))
	assert.Equal(t, []string{"unix:" + socket}, result.Targets)
	assert.EqualValues(t, 10, result.Total.Requests)
}

func TestAnOpenLoopWritesEveryKindOfOutput(t *testing.T) {
	server := mctest.StartMemcached(t)
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	stdout, _, err := lab(context.Background(), "load", "--target", server.Addr(), "-c", "2", "--rate",
		"200/connection",
		"--arrivals", "poisson",
		"--test-time", "1", "--populate", "--key-pattern", "S:Z", "--key-maximum", "50", "--data-size",
		"10:1,20:1", "--ratio", "1:2:1", "--protocol", "memcache_meta",
		"--out-file", in("text"), "--json-out", in("json"), "-o", in("a.csv"), "-o", "hdr:"+in("hdr"))
	require.NoError(t, err)
	assert.Empty(t, stdout)
	text, err := os.ReadFile(in("text"))
	require.NoError(t, err)
	assert.Contains(t, string(text),
		"pipeline 64, open loop, 400 requests/s, poisson arrivals, SET:GET:MULTIGET 1:2:1, 10 keys per MULTIGET, "+
			"values of list 10:1,20:1 bytes")
	assert.Contains(t, string(text), "schedule: requests were sent ")
	var result load.Result
	text, err = os.ReadFile(in("json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &result))
	assert.Equal(t, "poisson", result.Arrivals)
	assert.Equal(t, "S:Z", result.KeyPattern)
	assert.NotNil(t, result.Pace)
	text, err = os.ReadFile(in("a.csv"))
	require.NoError(t, err)
	assert.True(t, strings.HasPrefix(string(text), "second,length_s,command,requests,"))
	for name, of := range map[string]load.CommandResult{
		"FULL_RUN_1":        result.Total,
		"GET_command_run_1": result.Commands["GET"],
	} {
		log, err := os.Open(in("hdr_" + name + ".hgrm"))
		require.NoError(t, err)
		defer log.Close()
		interval, err := hdrhistogram.NewHistogramLogReader(log).NextIntervalHistogram()
		require.NoError(t, err)
		assert.EqualValues(t, of.Requests, interval.TotalCount())
		largest := float64(of.Latency.Max.Microseconds())
		assert.InDelta(t, largest, interval.Max(), 1+largest/1000) // whole microseconds, and a bucket of a thousandth
		table, err := os.ReadFile(in("hdr_" + name + ".txt"))
		require.NoError(t, err)
		assert.Regexp(t, fmt.Sprintf(`Total count += +%d\]`, of.Requests), string(table))
	}
}

func TestTheDriverMemtierRunsMemtier(t *testing.T) {
	server := mctest.StartMemcached(t)
	sample, err := filepath.Abs("../../memtier/testdata/get.json")
	require.NoError(t, err)
	program := filepath.Join(t.TempDir(), "memtier_benchmark")
	require.NoError(t, os.WriteFile(program,
		[]byte("#!/bin/sh\nfor a; do case $a in --json-out-file=*) cp "+sample+" ${a#*=};; esac; done\n"), 0o755))
	stdout, stderr, err := lab(context.Background(), "load", "--target", server.Addr(), "--driver",
		"memtier="+program, "-c", "4", "--test-time", "5")
	require.NoError(t, err)
	assert.Contains(t, stdout, "4 connections, 1 threads, pipeline 1, SET:GET 1:9")
	assert.Contains(t, stdout, "GET ")
	assert.Equal(t, "memtier_benchmark runs for 5s\n", stderr)
}

func TestCredentialsAreGivenOrInAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "login")
	require.NoError(t, os.WriteFile(file, []byte("me:se:cret\r\nothers:x\n"), 0o600))
	for text, want := range map[string][2]string{
		"": {"", ""}, "secret": {"", "secret"}, "me:secret": {"me", "secret"},
		"@" + file: {"me", "se:cret"},
	} {
		user, password, err := parseCredentials(text)
		require.NoError(t, err)
		assert.Equal(t, want, [2]string{user, password})
	}
}

// cancelOnce returns a context that is cancelled when happened is closed. If it is not closed, the context ends with
// another error after a while.
func cancelOnce(t *testing.T, happened <-chan struct{}) context.Context {
	t.Helper()
	limited, stop := context.WithTimeout(context.Background(), mctest.Patience)
	ctx, cancel := context.WithCancel(limited)
	t.Cleanup(stop)
	go func() {
		select {
		case <-happened:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx
}

func TestTheRequestsOfATraceAreSentAtTheirTimes(t *testing.T) {
	server := mctest.StartMemcached(t)
	file := filepath.Join(t.TempDir(), "trace.csv")
	require.NoError(t, os.WriteFile(file,
		[]byte("time,command,key,size\n100.0,set,user:1,900\n100.05,get,user:1,\n"+
			"100.1,GET,user:2,20\n100.2,set,user:3,7\n"), 0o600))
	// On one connection late requests are still in order.
	stdout := output(t, "load", "--target", server.Addr(), "-c", "1", "--rate", "trace:"+file, "-q", "--cache-aside")
	assert.Contains(t, stdout,
		"open loop, requests of a trace, SET:GET 2:2, 1 keys per GET, values of up to 900 bytes, missed keys are "+
			"stored")
	assert.Regexp(t, `(?m)^ *SET +3 `, stdout, "two of the trace and one after a miss")
	assert.Regexp(t, `(?m)^ *GET +2 `, stdout)
	for key, size := range map[string]int{"user:1": 900, "user:2": 20, "user:3": 7} {
		value, ok := server.Get(key)
		assert.True(t, ok, key)
		assert.Len(t, value, size, key)
	}
}

// startMissing starts a server that answers every get with a miss. The channel is closed at the first request.
func startMissing(t *testing.T) (addr string, asked <-chan struct{}) {
	t.Helper()
	requested := make(chan struct{})
	var first sync.Once
	server := mctest.StartScript(t, func(p *mctest.Peer) {
		p.Answer(func(string) string {
			first.Do(func() { close(requested) })
			return "END\r\n"
		})
	})
	return server.Addr(), requested
}

func TestAnInterruptedLoadPrintsItsMeasurements(t *testing.T) {
	server, asked := startMissing(t)
	ctx := cancelOnce(t, asked)
	stdout, _, err := lab(ctx, "load", "--target", server, "-c", "2", "--ratio", "0:1", "--test-time", "1h")
	require.NoError(t, err)
	require.ErrorIs(t, ctx.Err(), context.Canceled)
	assert.Contains(t, stdout, "(interrupted)")
	assert.Contains(t, stdout, "total")
}

func TestALabEndedByASignalHasTheExitCodeOfShells(t *testing.T) {
	for signal, code := range map[os.Signal]int{os.Interrupt: 130, syscall.SIGTERM: 143} {
		t.Run(signal.String(), func(t *testing.T) {
			server, asked := startMissing(t)
			program, err := os.Executable()
			require.NoError(t, err)
			cmd := exec.Command(program, "load", "--target", server, "-c", "2", "--ratio", "0:1", "--test-time", "1h")
			var stdout bytes.Buffer
			cmd.Stdout = &stdout
			require.NoError(t, cmd.Start())
			<-asked
			require.NoError(t, cmd.Process.Signal(signal))
			require.Error(t, cmd.Wait())
			assert.Equal(t, code, cmd.ProcessState.ExitCode())
			assert.Contains(t, stdout.String(), "(interrupted)")
		})
	}
}

func TestALoadThatMissesItsObjectivesHasAnotherExitCode(t *testing.T) {
	server := mctest.StartMemcached(t)
	base := []string{"load", "--target", server.Addr(), "-c", "1", "-n", "20", "--ratio", "1:1", "--populate", "-q"}
	_ = output(t, append(base, "--slo", "errors<1", "--slo", "p99<1h")...)
	stdout, _, err := lab(context.Background(), append(base, "--slo", "errors<1", "--slo", "p99<1ns")...)
	require.ErrorContains(t, err, "missed: p99<1ns: client.response_time_p99 is ")
	assert.Equal(t, exitMet, exitCode(err, new(bytes.Buffer)))
	assert.Contains(t, stdout, "total", "the result is also printed")
}

func TestObjectivesAreMetOrMissed(t *testing.T) {
	r := &load.Result{Total: load.CommandResult{
		Requests: 10, OpsPerSec: 5000, Misses: 2,
		// of a driver without a histogram
		Latency: load.Latency{Mean: time.Millisecond, P99: 2 * time.Millisecond, P999: 3 * time.Millisecond},
	}}
	why := func(text string) string {
		objective, err := condition.Parse(text, condition.OfClients)
		require.NoError(t, err, text)
		return missed(objective, r)
	}
	for text, want := range map[string]string{
		"p99<2.5ms":         "",
		"p99<2ms":           "client.response_time_p99 is 2.00 ms",
		"p99 <= 2ms":        "",
		"p99.9<1ms":         "client.response_time_p999 is 3.00 ms",
		"mean > 500us":      "",
		"p90 < 1ms":         "client.response_time_p90 was not measured",
		"throughput>=5000":  "",
		"throughput > 5000": "client.throughput is 5,000/s",
		"errors<1":          "",
		"misses<=1":         "client.misses is 2",
	} {
		require.Equal(t, want, why(text), text)
	}
	r.Pace = &load.PaceResult{Unsent: 3}
	require.Equal(t, "3 requests were due but could not be sent; without them client.response_time_p99 is 2.00 ms",
		why("p99<1s"))
	r.Total.Requests = 0
	require.Equal(t, "no request was answered", why("p99<1s"))
}

func TestALoadUsesTLSAndPasswordsAsTheMiddlewareDoes(t *testing.T) {
	ca, auth := mctest.NewCA(t), filepath.Join(t.TempDir(), "auth")
	require.NoError(t, os.WriteFile(auth, []byte("cache:secret\n"), 0o600))
	server := mctest.StartMemcachedTLS(t, ca, "-Y", auth)
	base := []string{"load", "--target", server.Addr(), "-c", "2", "-n", "50", "--populate", "-q"}
	stdout := output(t, append(base, "--tls-ca", ca.File, "--auth-file", auth)...)
	assert.Contains(t, stdout, ", TLS,")
	assert.Regexp(t, `total +100 .*`, stdout)
	_, _, err := lab(t.Context(), append(base, "--tls", "--auth-file", auth)...)
	assert.ErrorContains(t, err, "certificate signed by unknown authority")
	_, _, err = lab(t.Context(), append(base, "--tls-ca", ca.File)...)
	require.Error(t, err, "no login")
	for want, args := range map[string][]string{
		"--auth-file and --authenticate": {"--auth-file", auth, "-a", "a:b"},
		"--tls-cert and --tls-key":       {"--tls-cert", auth},
		"--auth-file: ":                  {"--auth-file", "/no/file"},
	} {
		requireRefused(t, exitUsage, want, append(base, args...)...)
	}
}

func TestAFailedLoadPrintsItsMeasurementsAndTheReason(t *testing.T) {
	server := mctest.StartScript(t, func(p *mctest.Peer) {
		p.Line()
		p.Send("END\r\n")
		p.Line()
		p.Send("NONSENSE\r\n")
		p.Stall()
	})
	stdout, _, err := lab(context.Background(), "load", "--target", server.Addr(), "-c", "1", "--ratio", "0:1")
	assert.EqualError(t, err, "target "+server.Addr()+`: not a reply to GET: "NONSENSE\r\n"`)
	assert.Contains(t, stdout, "total         1")
	var shown bytes.Buffer
	assert.Equal(t, exitFailed, exitCode(err, &shown))
	assert.Equal(t, "mcmwlab: "+err.Error()+"\n", shown.String())
}

func TestWrongCommandLinesAreRefusedWithCodeTwo(t *testing.T) {
	for line, want := range map[string]string{
		"load --clients 0":              "--clients 0: expected at least 1",
		"load --clients many":           `invalid argument "many" for "-c, --clients"`,
		"load --port 70000":             "--port 70000: expected 1 to 65535",
		"load --ratio 1":                `--ratio "1": expected SETs:GETs such as 1:9`,
		"load --ratio 0:0":              `--ratio "0:0"`,
		"load --test-time soon":         "expected seconds or a duration such as 1m30s",
		"load --test-time -3":           "expected seconds or a duration such as 1m30s",
		"load --warm-up 1 -n 5":         "a warm-up of 1s with 5 requests per connection",
		"load --ratio 1:2:3:4":          `--ratio "1:2:3:4": expected SETs:GETs`,
		"load --rate fast":              `--rate: rate "fast": "fast" is not a number`,
		"load --rate fast/connection":   `--rate: rate "fast": "fast" is not a number`,
		"load --rate-limiting 5":        "--rate-limiting is now --rate N/connection",
		"load -S /tmp/s":                "--S is now --target unix:PATH",
		"run a.yaml --testbed vm":       "--testbed is now --set testbed=KIND",
		"run a.yaml --inventory hosts":  "--inventory is now --set 'testbed={kind: ssh, inventory: FILE}'",
		"load --rate 5 --arrivals late": `--arrivals "late": expected even or poisson`,
		"load --arrivals poisson":       "expected --rate, too",
		"load --rate 5 --think-time 1":  "think times are for closed loops",
		"load --think-time deep:1":      `--think-time "deep:1": expected seconds or a duration`,
		"load --protocol " +
			"memcache_binary": `protocol "memcache_binary": expected memcache_text, memcache_meta or redis`,
		"load --key-pattern Q:R":                 `--key-pattern: key pattern "Q:R": expected two letters`,
		"load --key-pattern R:Z0":                `--key-pattern: key pattern "R:Z0": expected two letters`,
		"load -d 9-":                             `--data-size: "9-": range "9-": expected MIN-MAX`,
		"load --data-size-list 9":                "--data-size-list is now --data-size SIZE:WEIGHT,...",
		"load -d 0":                              `--data-size: "0"`,
		"load -d 1-9/X":                          `--data-size: "1-9/X": expected S after the slash`,
		"load -d normal:1":                       `distribution "normal:1": expected exponential:MEAN`,
		"load --expiry-range 0-9":                "smallest expiry 0: expected 1 to 9",
		"load --authenticate @/no/file":          "--authenticate: open /no/file",
		"load -o /no/dir/x.csv":                  "/no/dir/x.csv can't be written",
		"load -o hdr:/no/dir/x":                  "/no/dir/x can't be written",
		"load -o .":                              `"." can't be written: expected the path of a file`,
		"load --json-out-file /":                 `"/" can't be written: expected the path of a file`,
		"load --out-file=":                       `"" can't be written: expected the path of a file`,
		"load --rate trace:/no/file":             "--rate: open /no/file",
		"load --rate trace:x --arrivals poisson": "expected no --arrivals or --ratio",
		"load --driver wrk":                      `--driver "wrk": expected mcmwlab, memtier or memtier=PATH`,
		"load --driver memtier --think-time 1":   "memtier_benchmark does not support a think time",
		"load --slo p99=1ms":                     `--slo "p99=1ms", character 4: expected <, <=, >, >= or in`,
		"load --no-such-flag":                    "unknown flag: --no-such-flag (see mcmwlab load --help)",
		"load --ration 1:2": "unknown flag: --ration; did you mean --ratio? (see mcmwlab load " +
			"--help)",
		"load 127.0.0.1":                              `mcmwlab load takes flags only, got ["127.0.0.1"]`,
		"run BENCH --set rounds":                      `--set "rounds": expected KEY=VALUE`,
		"run BENCH --set rounds=2":                    `unknown key "rounds"`,
		"run BENCH --set repetitions=0":               `repetitions: "0"; expected a whole number from 1`,
		"run BENCH --set factors.case=[get-5k]":       `case "get-5k"; expected one of those under cases: get-4k`,
		"run BENCH --set factors.system=[ha]":         `system "ha"; expected direct, one of mcmw`,
		"check BENCH --set factors.system=[ha]":       `system "ha"; expected direct, one of mcmw`,
		"run BENCH --out OUT --program mcmw=/no/mcmw": "build it first",
		"faults --only flood":                         "there is no command faults any more: it is a test program",
		"dance":                                       `unknown command "dance"`,
		"help dance":                                  `unknown command "dance" for "mcmwlab"`,
		"help load now":                               `unknown command "now" for "mcmwlab load"`,
		"completion csh":                              `unknown command "csh" for "mcmwlab completion"`,
		"completion bash now":                         `unknown command "now" for "mcmwlab completion bash"`,
	} {
		line = strings.NewReplacer("BENCH", "../../experiments/bench.yaml", "OUT", t.TempDir()+"/none").Replace(line)
		requireRefused(t, exitUsage, want, strings.Fields(line)...)
	}
	assert.Zero(t, exitCode(nil, nil))
}

func TestTimesAreSecondsOrDurations(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"10": 10 * time.Second, "0.25": 250 * time.Millisecond,
		"1m30s": 90 * time.Second,
	} {
		var s seconds
		require.NoError(t, s.Set(text))
		assert.Equal(t, want, time.Duration(s))
	}
}

func TestTheProgressOfALoadIsDescribed(t *testing.T) {
	o := load.Options{Targets: []string{"a", "b"}, KeyMin: 1, KeyMax: 100, Duration: 10 * time.Second}
	assert.Equal(t, "populating: 150 of 200 keys", loadLine(load.Live{State: load.Populating, Populated: 150}, o))
	assert.Equal(t, "warming up: 12 requests", loadLine(load.Live{State: load.WarmingUp, Requests: 12}, o))
	window := load.Window{
		Index: 2,
		CommandResult: load.CommandResult{
			OpsPerSec: 1234.5,
			Latency:   load.Latency{Mean: 1500 * time.Microsecond, P99: 2 * time.Millisecond},
		},
	}
	assert.Equal(t, "second 3 of 10: 1234 ops/s, mean 1.500 ms, p99 2.000 ms; 5000 requests, 3 misses, 1 errors",
		loadLine(load.Live{State: load.Recording, Requests: 5000, Misses: 3, Failures: 1, Latest: &window}, o))
}
