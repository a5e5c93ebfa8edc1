// Command faults makes servers fail while a middleware serves a load, and judges the answers that the clients get.
//
//	clients --> mcmw --> [faulty proxy] --> memcached
//	  |           |                            |
//	  judge       admin server, log            killed, suspended, restarted, cut off
//
// It is run from its directory: go -C test/faults run . --only kill-any
//
// # What is run
//
// The middleware and the servers are processes, started as users start them. A scenario is a table entry: the system,
// the fault, the action that ends the fault, and the errors to expect. A soak makes random servers fail in random ways;
// a seed selects them. The timeline is: load without a fault, the fault, its end, load again. At the end every key is
// read once more, through the middleware and from each server.
//
// # How it is judged
//
// By package history: no value may be wrong or stale and no answer may be lost, and no goroutine may be left when the
// load has ended, whatever fails and however busy the machine is. Times are reported but not judged.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"mcmw/internal/commandline"
)

// Exit codes.
const (
	exitFailed = 1
	exitUsage  = 2 // the command line is wrong
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the second signal kills the process
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	if err == nil {
		return
	}
	fmt.Fprintf(os.Stderr, "faults: %v\n", err)
	if _, ok := errors.AsType[usageError](err); ok {
		os.Exit(exitUsage)
	}
	os.Exit(exitFailed)
}

// usageError is an error of the command line.
type usageError struct{ error }

// run is the whole program. Results go to stdout, progress and errors to stderr.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	root := newFaultsCommand(args, stderr)
	root.AddCommand(newSoakCommand(args, stderr), newStaleCommand())
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w (see --help)", commandline.ExplainFlagError(cmd, err))}
	})
	return root.ExecuteContext(ctx)
}

// faultFlags are the flags of all scenarios and of the soak.
type faultFlags struct {
	list     bool
	duration time.Duration
	jsonOut  string
	markdown string
	quiet    bool
	options  Options
}

// mcmwFlag adds the flag --mcmw.
func mcmwFlag(flags *pflag.FlagSet, path *string) {
	flags.StringVar(path, "mcmw", "../../bin/mcmw", "path of the mcmw binary, which `make build` makes")
}

// common adds the flags that both commands have.
func (f *faultFlags) common(cmd *cobra.Command, args []string, section string) {
	f.options.Command = strings.Join(append([]string{"go -C test/faults run ."}, args...), " ")
	flags := cmd.Flags()
	mcmwFlag(flags, &f.options.Mcmw)
	flags.StringArrayVar(&f.options.Given, "option", nil, "option of every mcmw, such as hot-keys=serve; repeatable")
	flags.Uint64Var(&f.options.Seed, "seed", 0,
		"seed of the requests and faults (default: a random one, which is shown)")
	flags.StringVar(&f.jsonOut, "json-out-file", "", "write the report as JSON to this file; - for standard output")
	flags.StringVar(&f.markdown, "markdown", "",
		"write the report to this Markdown page, between its lines <!-- "+section+" --> and "+
			"<!-- end of "+section+" -->")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "show no progress")
}

// noArguments refuses arguments that are no flags.
func noArguments(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("got %q, expected flags only (see --help)", args)}
	}
	return nil
}

func newFaultsCommand(args []string, stderr io.Writer) *cobra.Command {
	var f faultFlags
	cmd := &cobra.Command{
		Use:   "faults",
		Short: "Make servers fail in every way under a verified load",
		Long: `Run mcmw in front of real memcached servers under an open-loop load that checks every value, make the servers
fail in one way after the other, and report the effects on clients. The exit code is 1 if a promise was broken (a wrong or
stale value, a lost answer, a leak, a server that was not used again), or if there was an error that the fault does not
explain, which can happen on an overloaded machine.
mcmw does not get MCMW_* variables; --option gives it options. With hot-keys=serve most reads are of few keys, and each scenario must see answers from memory.
Partitions need root (network namespaces) and are skipped otherwise.`,
		Example: `  go -C test/faults run . --markdown ../../docs/results/reliability.md
  go -C test/faults run . --only kill-any,freeze-one
  go -C test/faults run . --option hot-keys=serve`,
		Args: noArguments, SilenceErrors: true, SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.list {
				for _, s := range Scenarios() {
					fmt.Fprintf(cmd.OutOrStdout(), "%-14s %s; mcmw serve %s\n", s.Name, s.Title,
						strings.Join(s.Args, " "))
				}
				return nil
			}
			return f.run(cmd.Context(), "faults", cmd.OutOrStdout(), stderr, New)
		},
	}
	f.common(cmd, args, "faults")
	cmd.Flags().StringSliceVar(&f.options.Only, "only", nil, "scenarios to run (default all)")
	cmd.Flags().BoolVar(&f.options.Quick, "quick", false, "leave out scenarios that are variants of others")
	cmd.Flags().BoolVar(&f.list, "list", false, "only list the scenarios")
	return cmd
}

func newSoakCommand(args []string, stderr io.Writer) *cobra.Command {
	var f faultFlags
	cmd := &cobra.Command{
		Use:   "soak",
		Short: "Make random servers fail in random ways for a long time",
		Long: `Run mcmw under the load of all scenarios for a given time, and make random servers fail in random ways, one after the
other. The exit code is 1 if a promise was broken: a wrong or stale value, a lost answer, a leak.`,
		Example: `  go -C test/faults run . soak --duration 1h --markdown ../../docs/results/reliability.md`,
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd.Context(), "soak", cmd.OutOrStdout(), stderr, func(o Options) (*Suite, error) {
				return NewSoak(o, f.duration)
			})
		},
	}
	f.common(cmd, args, "soak")
	cmd.Flags().DurationVar(&f.duration, "duration", DefaultSoak, "time to run, such as 90m")
	return cmd
}

// run makes and runs a suite and writes its report, also a partial one after a failure or an interrupt.
func (f *faultFlags) run(ctx context.Context, section string, stdout, stderr io.Writer,
	make func(Options) (*Suite, error),
) error {
	o := f.options
	o.Seed = cmp.Or(o.Seed, uint64(time.Now().UnixNano()))
	if !f.quiet {
		fmt.Fprintf(stderr, "seed %d\n", o.Seed)
		o.Progress = func(line string) { fmt.Fprintln(stderr, line) }
	}
	if f.markdown != "" {
		if _, err := f.page(section, nil); err != nil {
			return usageError{fmt.Errorf("--markdown: %w", err)}
		}
	}
	r, err := make(o)
	if err != nil {
		return usageError{err}
	}
	report, err := r.Run(ctx)
	if writeErr := f.write(report, section, err == nil, stdout); err == nil {
		err = writeErr
	}
	if broken := report.Broken(); broken > 0 && err == nil {
		err = fmt.Errorf("%d of %d failed; the report has the reasons", broken, len(report.Results))
	}
	return err
}

// write writes the report to its outputs. The page of results is only written for complete runs.
func (f *faultFlags) write(report *Report, section string, whole bool, stdout io.Writer) error {
	var text bytes.Buffer
	if err := report.WriteMarkdown(&text); err != nil {
		return err
	}
	if f.jsonOut != "-" {
		if _, err := stdout.Write(text.Bytes()); err != nil {
			return err
		}
	}
	if f.jsonOut != "" {
		encoded, err := json.MarshalIndent(report, "", "  ")
		if err == nil && f.jsonOut == "-" {
			_, err = stdout.Write(append(encoded, '\n'))
		} else if err == nil {
			err = os.WriteFile(f.jsonOut, append(encoded, '\n'), 0o644)
		}
		if err != nil {
			return err
		}
	}
	if f.markdown == "" || !whole {
		return nil
	}
	page, err := f.page(section, text.Bytes())
	if err != nil {
		return err
	}
	return os.WriteFile(f.markdown, page, 0o644)
}

// page returns the page of results, with text between the lines that mark the section.
func (f *faultFlags) page(section string, text []byte) ([]byte, error) {
	page, err := os.ReadFile(f.markdown)
	if err != nil {
		return nil, err
	}
	begin, end := "<!-- "+section+" -->\n", "<!-- end of "+section+" -->"
	before, rest, ok := bytes.Cut(page, []byte(begin))
	_, after, ok2 := bytes.Cut(rest, []byte(end))
	if !ok || !ok2 {
		return nil, fmt.Errorf("%s: expected lines %s and %s", f.markdown, strings.TrimSpace(begin), end)
	}
	return slices.Concat(before, []byte(begin), text, []byte(end), after), nil
}
