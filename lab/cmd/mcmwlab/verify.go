package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/spf13/cobra"

	"mcmw/test/history"
)

type verifyFlags struct {
	options     history.Options
	duration    time.Duration
	untilEOF    bool
	eachAddress bool
	jsonOut     string
}

func newVerifyCommand() *cobra.Command {
	var f verifyFlags
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Put a load on a service and check every answer",
		Long: `Put an open-loop load of classic and meta commands on a service and check every answer: each value must be complete, must have been stored under its
key, and must not be older than a value that was acknowledged or read before. The targets are middlewares in front of the same servers; each client connects
to one after the other. The clients of --shared-clients are connected to all targets at the same time and write the same keys: their reads must not be
older than an acknowledged write, no incr and no cas may be lost, one of several adds of a key must win, and in the end all replicas must agree.

Clients reconnect when a connection ends. If it ends between two replies, as connections of mcmw do at shutdown, they repeat unanswered requests. In the
end every key is read once more. The first interrupt ends the load and prints the counts.

The exit code is 1 if any request failed or was lost, any connection was refused, or any value was wrong or stale. The
service must have memory for some thousand keys, and nothing else may write keys that begin with "verify-".`,
		Example: `  mcmwlab verify --target mcmw:11311 --test-time 60
  mcmwlab verify --target 10.0.0.1:11311,10.0.0.2:11311
  kubectl exec -i mcmw-load-0 -- /mcmwlab verify --target mcmw:11311 --until-eof`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&f.options.Addrs, "target", []string{"127.0.0.1:11311"},
		"host:port of the service; several, with commas, for middlewares in front of the same servers")
	flags.BoolVar(&f.eachAddress, "each-address", false, "use every address of a target's name")
	flags.IntVar(&f.options.SharedClients, "shared-clients", 4,
		"clients that use all targets and write the same keys; 0: none")
	flags.IntVar(&f.options.SharedRate, "shared-rate", 200,
		"requests per second of all clients of --shared-clients together")
	flags.IntVarP(&f.options.Clients, "clients", "c", 8, "connections")
	flags.IntVar(&f.options.Rate, "rate", 400, "requests per second of all connections together")
	f.duration = 10 * time.Second
	flags.Var((*seconds)(&f.duration), "test-time",
		"time to send requests: seconds, or a duration such as 1m30s; 0: until interrupted")
	flags.BoolVar(&f.untilEOF, "until-eof", false,
		"end when standard input ends, or after --test-time if that is given")
	flags.Uint64Var(&f.options.Seed, "seed", 0, "seed of the sequence of requests")
	flags.StringVar(&f.jsonOut, "json-out-file", "", "write the counts as JSON to this file; - for standard output")
	return cmd
}

func (f *verifyFlags) run(cmd *cobra.Command) error {
	ctx, stdout := cmd.Context(), cmd.OutOrStdout()
	if f.untilEOF {
		if !cmd.Flags().Changed("test-time") {
			f.duration = 0
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		input := cmd.InOrStdin()
		go func() {
			_, _ = io.Copy(io.Discard, input)
			cancel()
		}()
	}
	if f.eachAddress {
		var err error
		if f.options.Addrs, err = addressesOf(ctx, f.options.Addrs); err != nil {
			return err
		}
	}
	verified, err := history.Verify(ctx, f.options, f.duration)
	if verified == nil {
		return err
	}
	if f.jsonOut != "-" {
		err = errors.Join(err, verified.WriteText(stdout))
	}
	if f.jsonOut != "" {
		err = errors.Join(err, writeJSON(f.jsonOut, stdout, verified))
	}
	if broken := verified.Broken(); broken != nil {
		err = errors.Join(fmt.Errorf("the service broke a promise: %w", broken), err)
	}
	return err
}

// addressesOf returns all addresses of the targets' names.
func addressesOf(ctx context.Context, targets []string) (addrs []string, err error) {
	for _, target := range targets {
		host, port, err := net.SplitHostPort(target)
		if err != nil {
			return nil, fmt.Errorf("--target %s: expected host:port: %w", target, err)
		}
		ips, err := net.DefaultResolver.LookupHost(ctx, host)
		if err != nil {
			return nil, fmt.Errorf("--target %s: %w", target, err)
		}
		for _, ip := range ips {
			addrs = append(addrs, net.JoinHostPort(ip, port))
		}
	}
	return addrs, nil
}
