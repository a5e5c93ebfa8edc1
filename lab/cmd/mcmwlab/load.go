package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"mcmw/internal/secret"
	"mcmw/lab/collect"
	"mcmw/lab/condition"
	"mcmw/lab/load"
	"mcmw/lab/memtier"
	"mcmw/lab/record"
)

// loadFlags are the flags of `mcmwlab load`. Many have the names of memtier_benchmark's.
type loadFlags struct {
	server       string
	port         int
	targets      []string
	protocol     string
	authenticate string
	clients      int
	ratio        string
	testTime     time.Duration

	rate, arrivals, thinkTime, sizes, keyPattern, expiryRange string

	slo      []string
	tls      bool
	files    secret.ClientFiles
	authFile string
	outputs  loadOutputs
	quiet    bool
	driver   string
	options  load.Options
}

func newLoadCommand(stderr io.Writer) *cobra.Command {
	var f loadFlags
	cmd := &cobra.Command{
		Use:   "load",
		Short: "Put a load on a server and measure it",
		Long: `Put a load on a server and measure it.

Closed loop (the default): each connection keeps --pipeline requests outstanding and sends the next one as soon as a reply
is complete, or --think-time later. The latency of a request is the time from the write that sends it to the read that
receives the end of its reply.

Open loop (--rate): requests are due at times that do not depend on replies. The latency of a
request is the time from its due time to the end of its reply. The output also has the service time, from the write of the
request, and the delay with which requests were sent.

The first interrupt ends the run and prints the measurements. docs/load.md explains the closed and open loop and the outputs.`,
		Example: `  mcmwlab load -s 127.0.0.1 -p 11311 -c 64 --ratio 1:9 -d 64 --test-time 10 --populate
  mcmwlab load -p 11311 --rate 20000 --slo 'p99<1ms' --slo 'errors<1'
  mcmwlab load --target 127.0.0.1:11211 --target 127.0.0.1:11212 -c 16 --pipeline 16 --requests 100000
  mcmwlab load -p 11311 --rate ramp:1000-50000/30s --arrivals poisson --key-pattern Z:Z --test-time 30 -o load.csv`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd, stderr)
		},
	}
	f.define(cmd.Flags())
	return cmd
}

func (f *loadFlags) define(flags *pflag.FlagSet) {
	o := &f.options
	flags.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		// Aliases.
		switch name {
		case "host":
			name = "server"
		case "json-out":
			name = "json-out-file"
		}
		return pflag.NormalizedName(name)
	})
	flags.StringVarP(&f.server, "server", "s", "127.0.0.1", "address of the server")
	flags.IntVarP(&f.port, "port", "p", 11211, "port of the server")
	flags.StringArrayVar(&f.targets, "target", nil,
		"host:port or unix:/path; repeatable: connections are spread over all targets; replaces --server and --port")
	flags.StringVarP(&f.protocol, "protocol", "P", "memcache_text", "memcache_text, memcache_meta or redis")
	flags.StringVarP(&f.authenticate, "authenticate", "a", "",
		"USER:PASSWORD to log in with; @FILE reads it from a file")
	flags.StringVar(&f.authFile, "auth-file", "", "file with a line user:password to log in with")
	flags.BoolVar(&f.tls, "tls", false, "use TLS")
	flags.StringVar(&f.files.CA, "tls-ca", "",
		"file with the trusted certificate authorities (default: those of the system)")
	flags.StringVar(&f.files.Cert, "tls-cert", "", "file with the client certificate")
	flags.StringVar(&f.files.Key, "tls-key", "", "file with the private key of the client certificate")
	flags.StringVar(&f.files.Name, "tls-name", "",
		"name for which the server's certificate must be valid (default: the host of the target)")
	flags.IntVarP(&f.clients, "clients", "c", 50, "connections per thread")
	flags.IntVarP(&o.Threads, "threads", "t", 1, "threads, one epoll loop each")
	flags.IntVar(&o.Pipeline, "pipeline", 1,
		"requests that each connection keeps outstanding; in an open loop the most it sends without a reply, by "+
			"default 64")
	flags.StringVar(&f.thinkTime, "think-time", "",
		"closed loop: time between a reply and the next request; exponential:MEAN for random times")
	flags.StringVar(&f.rate, "rate", "",
		"open loop: requests per second of all connections together, such as 20000, ramp:1000-20000/30s, "+
			"steps:1000,2000/10s or burst:1000,20000/10s,500ms, or of each, such as 100/connection; trace:FILE: the "+
			"requests of this CSV file at their times; each line has a time (seconds), a command (get or set), a key "+
			"and the size of the value (bytes)")
	flags.StringVar(&f.arrivals, "arrivals", "even",
		"distribution of the times between requests of an open loop: even or poisson")
	flags.StringVar(&f.ratio, "ratio", "1:9", "SET:GET or SET:GET:MULTIGET ratio of requests")
	flags.IntVar(&o.KeysPerGet, "multi-key-get", 1, "keys per GET; per MULTIGET, by default 10, if --ratio has them")
	flags.StringVarP(&f.sizes, "data-size", "d", strconv.Itoa(load.DefaultValueSize),
		"size of the values, bytes; MIN-MAX: random; MIN-MAX/S: growing from the first key to the last; "+
			"SIZE:WEIGHT,...: random with these weights; or a distribution: exponential:MEAN, normal:MEAN,DEVIATION, "+
			"lognormal:MEAN,DEVIATION or pareto:LOCATION,SCALE,SHAPE, also within bounds, such as "+
			"normal:500,100/1-1000")
	flags.StringVar(&f.expiryRange, "expiry-range", "", "MIN-MAX: range of random expiry times of the values, seconds")
	flags.Uint64Var(&o.KeyMin, "key-minimum", 1, "number of the first key")
	flags.Uint64Var(&o.KeyMax, "key-maximum", load.DefaultKeys, "number of the last key")
	flags.StringVar(&o.KeyPrefix, "key-prefix", load.DefaultKeyPrefix, "prefix of all keys")
	flags.StringVar(&f.keyPattern, "key-pattern", "R:R",
		"distribution of the keys of SETs:GETs: R uniform, S sequential, P sequential in a range per connection, "+
			"Gaussian G, or GMEDIAN,DEVIATION (default: the middle and a sixth of the range), Zipf Z, or ZEXPONENT "+
			"(default 1)")
	flags.Var((*seconds)(&f.testTime), "test-time",
		"time to record: seconds, or a duration such as 1m30s (default 10 unless --requests or a trace is given)")
	flags.Var((*seconds)(&o.WarmUp), "warm-up", "time to run before recording")
	flags.Var((*seconds)(&o.CoolDown), "cool-down",
		"time to continue without recording after --test-time; requests outstanding at the end of the recording then "+
			"don't count")
	flags.IntVarP(&o.Requests, "requests", "n", 0, "requests per connection; 0: no limit")
	flags.BoolVar(&o.CacheAside, "cache-aside", false,
		"store a key immediately when a GET misses it, as a cache-aside application does; these SETs are in addition "+
			"to --ratio and --rate")
	flags.IntVar(&o.ReconnectAfter, "reconnect-interval", 0,
		"number of requests after which a connection is closed and opened again; 0: never")
	flags.BoolVar(&o.Populate, "populate", false, "store every key once before the load begins")
	flags.BoolVar(&o.Verify, "data-verify", false, "compare every returned value with the value stored under its key")
	flags.Uint64Var(&o.Seed, "seed", 0, "seed of the sequence of requests")
	flags.Var((*seconds)(&o.Timeout), "timeout", "time to wait for a reply before the run fails (default 10)")
	flags.Var((*seconds)(&o.ConnectTimeout), "connection-timeout", "time to wait for a connection (default 5)")
	flags.StringArrayVar(&f.slo, "slo", nil,
		"objective such as 'p99<1ms', 'throughput>=50000' or 'errors<1'; the exit code is 3 if it is missed; "+
			"repeatable")
	flags.StringArrayVarP(&f.outputs.files, "out-file", "o", nil,
		"write to FILE.csv the time series, a line per second and command, to another name the text, instead of to "+
			"standard output; hdr:PREFIX: the histogram of each command to PREFIX_<COMMAND>_command_run_1.hgrm (log) "+
			"and .txt (percentiles), that of all requests to PREFIX_FULL_RUN_1; repeatable")
	flags.StringVar(&f.outputs.json, "json-out-file", "",
		"write the result as JSON to this file; - for standard output")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "show no progress")
	flags.StringVar(&f.driver, "driver", load.DriverOwn,
		"load generator: mcmwlab, or memtier (memtier_benchmark in PATH) or memtier=PATH")
}

// run runs the load and prints its result, also a partial one after a failure.
func (f *loadFlags) run(cmd *cobra.Command, stderr io.Writer) error {
	o, err := f.complete(cmd.Flags())
	if err != nil {
		return usageError{err}
	}
	if err := f.outputs.check(); err != nil {
		return usageError{err}
	}
	var objectives []condition.Condition
	for _, text := range f.slo {
		objective, err := condition.Parse(text, condition.OfClients)
		if err != nil {
			return usageError{fmt.Errorf("--slo %w", err)}
		}
		objectives = append(objectives, objective)
	}
	result, err := f.measure(cmd.Context(), o, stderr)
	if result != nil {
		if printErr := f.outputs.write(result, cmd.OutOrStdout()); printErr != nil && err == nil {
			err = printErr
		}
	}
	if err != nil {
		return err
	}
	var all []string
	for _, objective := range objectives {
		if why := missed(objective, result); why != "" {
			all = append(all, "missed: "+objective.Text+": "+why)
		}
	}
	if all != nil {
		return conditionError{exitMet, strings.Join(all, "\n  ")}
	}
	return nil
}

// missed says how a result misses an objective; "" if it meets it. A result with requests that were due but not sent
// misses every objective about times, because the times don't include these requests.
func missed(objective condition.Condition, r *load.Result) string {
	of := objective.Term.Metric
	v, ok := (&record.Run{Results: collect.Client(*r)}).Value(of.Source, of.Name)
	described, _ := record.Describe(of.Name)
	is := of.Source + "." + of.Name + " is " + record.Format(of.Name, v)
	switch {
	case r.Total.Requests == 0:
		return "no request was answered"
	case !ok:
		return of.Source + "." + of.Name + " was not measured"
	case described.Unit == record.Seconds && r.Pace != nil && r.Pace.Unsent > 0:
		return fmt.Sprintf("%d requests were due but could not be sent; without them %s", r.Pace.Unsent, is)
	case objective.Holds(v):
		return ""
	}
	return is
}

// measure runs the load with the selected driver.
func (f *loadFlags) measure(ctx context.Context, o load.Options, stderr io.Writer) (*load.Result, error) {
	if f.driver != load.DriverOwn {
		return runMemtier(ctx, o, f.driver, f.quiet, stderr)
	}
	g, err := load.New(o)
	if err != nil {
		return nil, usageError{err}
	}
	if !f.quiet {
		defer showLoad(stderr, g, o)()
	}
	return g.Run(ctx)
}

// complete checks the flags and returns the options of the load.
func (f *loadFlags) complete(flags *pflag.FlagSet) (o load.Options, err error) {
	o = f.options
	switch {
	case len(f.targets) > 0:
		o.Targets = f.targets
	case f.port < 1 || f.port > 65535:
		return o, fmt.Errorf("--port %d: expected 1 to 65535", f.port)
	default:
		o.Targets = []string{net.JoinHostPort(f.server, strconv.Itoa(f.port))}
	}
	if o.ValueSize, o.Sizes, err = load.ParseSizes(f.sizes); err != nil {
		return o, fmt.Errorf("--data-size: %w", err)
	}
	for _, flag := range []struct {
		name  string
		value int
	}{
		{"clients", f.clients},
		{"threads", o.Threads},
		{"pipeline", o.Pipeline},
		{"multi-key-get", o.KeysPerGet},
	} {
		if flag.value < 1 {
			return o, fmt.Errorf("--%s %d: expected at least 1", flag.name, flag.value)
		}
	}
	o.Connections = f.clients * o.Threads
	if o.Protocol, err = load.ParseProtocol(f.protocol); err != nil {
		return o, fmt.Errorf("--protocol: %w", err)
	}
	if o.User, o.Password, err = parseCredentials(f.authenticate); err != nil {
		return o, err
	}
	if err := f.completeAccess(&o); err != nil {
		return o, err
	}
	if o.Sets, o.Gets, o.MultiGets, err = parseRatio(f.ratio); err != nil {
		return o, err
	}
	if o.MultiGets > 0 && !flags.Changed("multi-key-get") {
		o.KeysPerGet = load.DefaultMultiGetKeys
	}
	if err := f.completeTimes(flags, &o); err != nil {
		return o, err
	}
	if err := o.ParseKeyPattern(f.keyPattern); err != nil {
		return o, fmt.Errorf("--key-pattern: %w", err)
	}
	if f.expiryRange != "" {
		if o.ExpiryMin, o.ExpiryMax, err = load.ParseSizeRange(f.expiryRange); err != nil {
			return o, fmt.Errorf("--expiry-range: %w", err)
		}
	}
	o.Duration = f.testTime
	if o.Duration == 0 && o.Requests == 0 && (o.Schedule == nil || o.Schedule.Trace == nil) {
		o.Duration = 10 * time.Second
	}
	if name, _, _ := strings.Cut(f.driver, "="); f.driver != load.DriverOwn && name != memtier.Name {
		err = fmt.Errorf("--driver %q: expected mcmwlab, memtier or memtier=PATH", f.driver)
	}
	return o, err
}

// completeAccess sets TLS and authentication. The files have the same formats as those of mcmw.
func (f *loadFlags) completeAccess(o *load.Options) (err error) {
	silent := slog.New(slog.DiscardHandler)
	switch {
	case f.authFile != "" && f.authenticate != "":
		return errors.New("--auth-file and --authenticate: expected only one of them")
	case (f.files.Cert == "") != (f.files.Key == ""):
		return errors.New("--tls-cert and --tls-key: expected both, or neither")
	case f.authFile != "":
		login, err := secret.Login(f.authFile, silent)
		if err != nil {
			return fmt.Errorf("--auth-file: %w", err)
		}
		o.User, o.Password = login()
	}
	if f.tls || f.files != (secret.ClientFiles{}) {
		o.TLS, err = secret.ClientTLS(f.files, silent)
	}
	return err
}

// completeTimes sets when requests are sent.
func (f *loadFlags) completeTimes(flags *pflag.FlagSet, o *load.Options) (err error) {
	if f.thinkTime != "" {
		text, random := strings.CutPrefix(f.thinkTime, "exponential:")
		o.ThinkRandom = random
		if err := (*seconds)(&o.ThinkTime).Set(text); err != nil {
			return fmt.Errorf("--think-time %q: %w, or exponential:MEAN", f.thinkTime, err)
		}
	}
	perConnection, each := strings.CutSuffix(f.rate, "/connection")
	path, recorded := strings.CutPrefix(f.rate, "trace:")
	switch {
	case f.rate == "" && flags.Changed("arrivals"):
		return errors.New("--arrivals: only an open loop has it; expected --rate, too")
	case f.rate == "":
		return nil
	case recorded && (flags.Changed("arrivals") || flags.Changed("ratio")):
		return errors.New("--rate trace: the trace defines the requests and their times; expected no --arrivals or " +
			"--ratio")
	case recorded:
		o.Schedule, err = readTrace(path)
	case each:
		if o.Schedule, err = load.ParseSchedule(perConnection); err == nil {
			o.Schedule = o.Schedule.Times(float64(o.Connections))
		}
	default:
		o.Schedule, err = load.ParseSchedule(f.rate)
	}
	if err != nil {
		return fmt.Errorf("--rate: %w", err)
	}
	if f.arrivals != "even" && f.arrivals != "poisson" {
		return fmt.Errorf("--arrivals %q: expected even or poisson", f.arrivals)
	}
	o.Schedule.Poisson = f.arrivals == "poisson"
	if !flags.Changed("pipeline") {
		o.Pipeline = load.DefaultOpenPipeline
	}
	return nil
}

// readTrace returns the schedule of the requests of a trace.
func readTrace(path string) (*load.Schedule, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	trace, err := load.ParseTrace(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &load.Schedule{Trace: trace}, nil
}

// parseCredentials reads "USER:PASSWORD" or "PASSWORD", or one of them from the first line of @FILE.
func parseCredentials(text string) (user, password string, err error) {
	if path, ok := strings.CutPrefix(text, "@"); ok {
		file, err := os.ReadFile(path)
		if err != nil {
			return "", "", fmt.Errorf("--authenticate: %w", err)
		}
		text, _, _ = strings.Cut(string(file), "\n")
		text = strings.TrimRight(text, "\r")
		if text == "" {
			return "", "", fmt.Errorf("--authenticate: the first line of %s is empty: expected USER:PASSWORD", path)
		}
	}
	if user, password, ok := strings.Cut(text, ":"); ok {
		return user, password, nil
	}
	return "", text, nil
}

// parseRatio reads "SETs:GETs" or "SETs:GETs:multi-GETs".
func parseRatio(text string) (sets, gets, multiGets int, err error) {
	parts := strings.Split(text, ":")
	var numbers [3]int
	ok := len(parts) == 2 || len(parts) == 3
	for i := 0; ok && i < len(parts); i++ {
		numbers[i], err = strconv.Atoi(parts[i])
		ok = err == nil && numbers[i] >= 0
	}
	if !ok || numbers == [3]int{} {
		return 0, 0, 0, fmt.Errorf("--ratio %q: expected SETs:GETs such as 1:9, or SETs:GETs:MULTIGETs, not all 0",
			text)
	}
	return numbers[0], numbers[1], numbers[2], nil
}

// seconds is a duration flag that also takes a bare number, of seconds.
type seconds time.Duration

// Set reads "10", "0.5" or "1m30s".
func (s *seconds) Set(text string) error {
	d, err := time.ParseDuration(text)
	if number, numberErr := strconv.ParseFloat(text, 64); numberErr == nil {
		d, err = time.Duration(number*float64(time.Second)), nil
	}
	if err != nil || d < 0 {
		return errors.New("expected seconds or a duration such as 1m30s")
	}
	*s = seconds(d)
	return nil
}

// String returns the value; "" for the zero value, which stands for a default.
func (s *seconds) String() string {
	if *s == 0 {
		return ""
	}
	return time.Duration(*s).String()
}

// Type is the placeholder of the value in the help.
func (s *seconds) Type() string { return "time" }
