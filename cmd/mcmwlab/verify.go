package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"mcmw/internal/lab/faults"
)

// verifyFlags are the flags of `mcmwlab verify`.
type verifyFlags struct {
	options  faults.VerifyOptions
	duration seconds
	untilEOF bool
	jsonOut  string
}

func newVerifyCommand() *cobra.Command {
	f := verifyFlags{duration: seconds(10 * time.Second)}
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Put a load on a service and check every answer",
		Long: `Put an open-loop load of classic and meta commands on a service and check every answer: each value has to be whole, stored under its key, and no
older than what was acknowledged or read before. Clients reconnect when a connection ends. If it ends in an orderly
way between two replies, as mcmw's do at shutdown, they repeat unanswered requests. In the end every key is read
once more. The first interrupt ends the load and prints what was counted.

The exit code is 1 if any request failed or was lost, any connection was refused, or any value was wrong or stale. The
service must have memory for some thousand keys, and nothing else may write keys that begin with "verify-".`,
		Example: `  mcmwlab verify --target mcmw:11311 --test-time 60
  kubectl exec -i mcmw-loadgen-0 -- /mcmwlab verify --target mcmw:11311 --until-eof`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.options.Addr, "target", "127.0.0.1:11311", "host:port of the service")
	flags.IntVarP(&f.options.Clients, "clients", "c", 8, "connections")
	flags.IntVar(&f.options.Rate, "rate", 400, "requests per second, of all connections together")
	flags.Var(&f.duration, "test-time", "how long to send requests: seconds, or a duration such as 1m30s; 0: until interrupted")
	flags.BoolVar(&f.untilEOF, "until-eof", false, "end when standard input ends, or after --test-time if that is given")
	flags.Uint64Var(&f.options.Seed, "seed", 0, "seed of the sequence of requests")
	flags.StringVar(&f.jsonOut, "json-out-file", "", "write what was counted as JSON to this file, - for standard output")
	return cmd
}

func (f *verifyFlags) run(cmd *cobra.Command) error {
	ctx, stdout := cmd.Context(), cmd.OutOrStdout()
	f.options.Duration = time.Duration(f.duration)
	if f.untilEOF {
		if !cmd.Flags().Changed("test-time") {
			f.options.Duration = 0
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
	verified, err := faults.Verify(ctx, f.options)
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
		err = errors.Join(fmt.Errorf("the service did not do what it should: %w", broken), err)
	}
	return err
}
