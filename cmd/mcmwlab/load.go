package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mcmw/internal/lab/load"
)

// loadFlags are the flags of `mcmwlab load`. Those that memtier_benchmark has too are called as there.
type loadFlags struct {
	server     string
	port       int
	unixSocket string
	targets    []string
	clients    int
	ratio      string
	testTime   time.Duration
	jsonOut    string
	quiet      bool
	options    load.Options
}

func newLoadCommand(stderr io.Writer) *cobra.Command {
	var f loadFlags
	o := &f.options
	cmd := &cobra.Command{
		Use:   "load",
		Short: "Put a closed-loop load on a server and measure it",
		Long: `Put a closed-loop load on a server and measure it: each connection keeps --pipeline requests outstanding and sends the
next as soon as a reply is complete. The latency of a request runs from the write that sends it to the read that
brings the end of its reply. The first interrupt ends the run and prints what was measured.`,
		Example: `  mcmwlab load -s 127.0.0.1 -p 11311 -c 64 --ratio 1:9 -d 64 --test-time 10 --populate
  mcmwlab load --target 127.0.0.1:11211 --target 127.0.0.1:11212 -c 16 --pipeline 16 --requests 100000`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd.Context(), cmd.OutOrStdout(), stderr)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.server, "server", "s", "127.0.0.1", "address of the server")
	flags.IntVarP(&f.port, "port", "p", 11211, "port of the server")
	flags.StringVarP(&f.unixSocket, "unix-socket", "S", "", "path of a unix socket to use instead of server and port")
	flags.StringArrayVar(&f.targets, "target", nil, "host:port or unix:/path; repeated: the connections are spread over all; instead of the flags above")
	flags.IntVarP(&f.clients, "clients", "c", 50, "connections per thread")
	flags.IntVarP(&o.Threads, "threads", "t", 1, "threads, one epoll loop each")
	flags.StringVar(&f.ratio, "ratio", "1:9", "SET:GET ratio")
	flags.IntVar(&o.Pipeline, "pipeline", 1, "requests that each connection keeps outstanding")
	flags.IntVarP(&o.ValueSize, "data-size", "d", load.DefaultValueSize, "size of the values, bytes")
	flags.Uint64Var(&o.KeyMin, "key-minimum", 1, "number of the first key")
	flags.Uint64Var(&o.KeyMax, "key-maximum", load.DefaultKeys, "number of the last key")
	flags.StringVar(&o.KeyPrefix, "key-prefix", load.DefaultKeyPrefix, "what all keys begin with")
	flags.IntVar(&o.KeysPerGet, "multi-key-get", 1, "keys per GET")
	flags.Var((*seconds)(&f.testTime), "test-time", "how long to record: seconds, or a duration such as 1m30s (default 10 unless --requests is given)")
	flags.Var((*seconds)(&o.WarmUp), "warm-up", "how long to run before recording begins")
	flags.IntVarP(&o.Requests, "requests", "n", 0, "requests per connection; 0: no limit")
	flags.BoolVar(&o.Populate, "populate", false, "store every key once before the load begins")
	flags.BoolVar(&o.Verify, "data-verify", false, "compare every returned value with what was stored under its key")
	flags.Uint64Var(&o.Seed, "seed", 0, "another seed makes another sequence of requests")
	flags.Var((*seconds)(&o.Timeout), "timeout", "how long a request may stay unanswered before the run fails (default 10)")
	flags.Var((*seconds)(&o.ConnectTimeout), "connection-timeout", "how long connecting may take (default 5)")
	flags.StringVar(&f.jsonOut, "json-out-file", "", "write the result as JSON to this file, - for standard output")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "show no progress")
	return cmd
}

// run makes the load and prints its result, also the partial one of a run that failed.
func (f *loadFlags) run(ctx context.Context, stdout, stderr io.Writer) error {
	o, err := f.complete()
	if err != nil {
		return usageError{err}
	}
	g, err := load.New(o)
	if err != nil {
		return usageError{err}
	}
	stop := func() {}
	if !f.quiet {
		stop = showLoad(stderr, g, o)
	}
	result, err := g.Run(ctx)
	stop()
	if result != nil {
		if printErr := f.print(result, stdout); printErr != nil && err == nil {
			err = printErr
		}
	}
	return err
}

// complete returns the options that the flags mean.
func (f *loadFlags) complete() (load.Options, error) {
	o := f.options
	switch {
	case len(f.targets) > 0:
		o.Targets = f.targets
	case f.unixSocket != "":
		o.Targets = []string{"unix:" + f.unixSocket}
	case f.port < 1 || f.port > 65535:
		return o, fmt.Errorf("--port %d: expected 1 to 65535", f.port)
	default:
		o.Targets = []string{net.JoinHostPort(f.server, strconv.Itoa(f.port))}
	}
	for _, flag := range []struct {
		name  string
		value int
	}{
		{"clients", f.clients},
		{"threads", o.Threads},
		{"pipeline", o.Pipeline},
		{"data-size", o.ValueSize},
		{"multi-key-get", o.KeysPerGet},
	} {
		if flag.value < 1 {
			return o, fmt.Errorf("--%s %d: expected at least 1", flag.name, flag.value)
		}
	}
	o.Connections = f.clients * o.Threads
	o.HoldProcessors = true
	var err error
	if o.Sets, o.Gets, err = parseRatio(f.ratio); err != nil {
		return o, err
	}
	o.Duration = f.testTime
	if o.Duration == 0 && o.Requests == 0 {
		o.Duration = 10 * time.Second
	}
	return o, nil
}

// print writes the result as text, and as JSON where that is asked for.
func (f *loadFlags) print(result *load.Result, stdout io.Writer) error {
	if f.jsonOut != "-" {
		if err := result.WriteText(stdout); err != nil {
			return err
		}
	}
	if f.jsonOut == "" {
		return nil
	}
	return writeJSON(f.jsonOut, stdout, result)
}

// writeJSON writes v to the file at path, to stdout for "-".
func writeJSON(path string, stdout io.Writer, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	text = append(text, '\n')
	if path == "-" {
		_, err = stdout.Write(text)
		return err
	}
	return os.WriteFile(path, text, 0o644)
}

// parseRatio reads "SETs:GETs".
func parseRatio(text string) (sets, gets int, err error) {
	before, after, ok := strings.Cut(text, ":")
	sets, err1 := strconv.Atoi(before)
	gets, err2 := strconv.Atoi(after)
	if !ok || err1 != nil || err2 != nil || sets < 0 || gets < 0 || sets+gets == 0 {
		return 0, 0, fmt.Errorf("--ratio %q: expected SETs:GETs such as 1:9, not both 0", text)
	}
	return sets, gets, nil
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
		return fmt.Errorf("expected seconds or a duration such as 1m30s")
	}
	*s = seconds(d)
	return nil
}

// String returns the value; the zero value, which stands for a default, is shown as nothing.
func (s *seconds) String() string {
	if *s == 0 {
		return ""
	}
	return time.Duration(*s).String()
}

// Type is what the help calls the value.
func (s *seconds) Type() string { return "time" }

// noArguments refuses arguments that aren't flags.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("%s takes flags only, got %q (see %s --help)", cmd.CommandPath(), args[0], cmd.CommandPath())}
	}
	return nil
}
