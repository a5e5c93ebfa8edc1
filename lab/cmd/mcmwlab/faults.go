package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mcmw/lab/faults"
)

// faultFlags are the flags of `mcmwlab faults` and `mcmwlab faults soak`.
type faultFlags struct {
	list     bool
	duration time.Duration
	jsonOut  string
	markdown string
	quiet    bool
	options  faults.Options
}

// common adds the flags that both commands have.
func (f *faultFlags) common(cmd *cobra.Command, args []string, section string) {
	f.options.Command = strings.Join(append([]string{"mcmwlab"}, args...), " ")
	flags := cmd.Flags()
	flags.StringVar(&f.options.Mcmw, "mcmw", "", mcmwHelp)
	flags.StringArrayVar(&f.options.Given, "option", nil, "option of every mcmw, such as hot-keys=serve; repeatable")
	flags.Uint64Var(&f.options.Seed, "seed", 0,
		"seed of the requests and faults (default: a random one, which is shown)")
	flags.StringVar(&f.jsonOut, "json-out-file", "", "write the report as JSON to this file; - for standard output")
	flags.StringVar(&f.markdown, "markdown", "",
		"write the report to this Markdown page, between its lines <!-- "+section+" --> and "+
			"<!-- end of "+section+" -->")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "show no progress")
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
		Example: `  mcmwlab faults --markdown docs/results/reliability.md
  mcmwlab faults --only kill-any,freeze-one
  mcmwlab faults --option hot-keys=serve`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.list {
				for _, s := range faults.Scenarios() {
					fmt.Fprintf(cmd.OutOrStdout(), "%-14s %s; mcmw serve %s\n", s.Name, s.Title,
						strings.Join(s.Args, " "))
				}
				return nil
			}
			return f.run(cmd.Context(), "faults", cmd.OutOrStdout(), stderr,
				func(o faults.Options) (faultRunner, error) { return faults.New(o) })
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
		Long: `Run mcmw as "mcmwlab faults" does, but for a given time, and make random servers fail in random ways, one after the
other. The exit code is 1 if a promise was broken: a wrong or stale value, a lost answer, a leak.`,
		Example: `  mcmwlab faults soak --duration 1h --markdown docs/results/reliability.md`,
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd.Context(), "soak", cmd.OutOrStdout(), stderr, func(o faults.Options) (faultRunner, error) {
				return faults.NewSoak(o, f.duration)
			})
		},
	}
	f.common(cmd, args, "soak")
	f.duration = faults.DefaultSoak
	cmd.Flags().Var((*seconds)(&f.duration), "duration", "time to run: seconds, or a duration such as 90m")
	return cmd
}

// faultRunner is a suite or a soak.
type faultRunner interface {
	Run(ctx context.Context) (*faults.Report, error)
}

// run creates and runs a faultRunner and writes its report, also a partial one after a failure or an interrupt.
func (f *faultFlags) run(ctx context.Context, section string, stdout, stderr io.Writer,
	make func(faults.Options) (faultRunner, error),
) error {
	o := f.options
	o.Mcmw = cmp.Or(o.Mcmw, besideThis("mcmw"))
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
func (f *faultFlags) write(report *faults.Report, section string, whole bool, stdout io.Writer) error {
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
		if err := writeJSON(f.jsonOut, stdout, report); err != nil {
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
