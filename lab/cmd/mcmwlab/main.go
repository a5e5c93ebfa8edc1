// Command mcmwlab is the lab: it puts load on memcached servers and middlewares, runs experiments with them, analyses,
// models and compares the measurements, and verifies the answers of a service under load.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"mcmw/internal/buildinfo"
	"mcmw/internal/commandline"
	"mcmw/lab/table"
)

// Exit codes.
const (
	exitFailed = 1 // the run failed
	exitUsage  = 2 // the command line is wrong
	exitMet    = 3 // compare: a condition of --fail-if is met; load: an objective of --slo is missed
	exitOpen   = 4 // compare: no condition is met, but at least one is undecided
	// exitBySignal plus the signal's number is a shell's exit code for a program ended by a signal, such as 130 after
	// Ctrl-C. It also ends the calling script.
	exitBySignal = 128
)

// version is set by the linker: -X main.version=...
var version string

var build = buildinfo.Read(version)

func main() {
	os.Exit(program(os.Args[1:], os.Stdout, os.Stderr))
}

// program runs until it has finished or a signal ends it, and returns the exit code.
func program(args []string, stdout, stderr io.Writer) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	signals := make(chan os.Signal, 1) // signal package -> the goroutine below
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	var ended atomic.Int32 // number of the signal that ended the run; 0: none
	go func() {
		// The first signal ends the run early and prints its result; the second kills the process.
		ended.Store(int32((<-signals).(syscall.Signal)))
		signal.Stop(signals)
		cancel()
	}()
	code := exitCode(run(ctx, args, stdout, stderr), stderr)
	if signal := ended.Load(); signal != 0 {
		return exitBySignal + int(signal)
	}
	return code
}

// run is the whole program. Results go to stdout, progress and errors to stderr.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) > 0 && gone[args[0]] != "" {
		return usageError{fmt.Errorf("there is no command %s any more: %s", args[0], gone[args[0]])}
	}
	root := &cobra.Command{
		Use:           "mcmwlab",
		Short:         "Put load on memcached servers and middlewares, and compare them",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf("unknown command %q (see mcmwlab --help)", args[0])}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
			name := unknown.GetSpecifiedName()
			if now := cmp.Or(earlierFlags[cmd.Name()+" "+name], earlierFlags[name]); now != "" {
				return usageError{fmt.Errorf("--%s is now %s (see %s --help)", name, now, cmd.CommandPath())}
			}
		}
		return usageError{fmt.Errorf("%w (see %s --help)", commandline.ExplainFlagError(cmd, err), cmd.CommandPath())}
	})
	groups := []struct {
		title    string
		commands []*cobra.Command
	}{
		{"Measure:", []*cobra.Command{
			newLoadCommand(stderr), newBenchCommand(args, stderr), newCheckCommand(),
			newRunCommand(args, stderr),
		}},
		{"Read:", []*cobra.Command{
			newShowCommand(), newReportCommand(), newCompareCommand(), newImportCommand(args, stderr),
		}},
		{"Explain:", []*cobra.Command{
			newFactorialCommand(), newModelCommand(), newCapacityCommand(),
		}},
		{"Prove:", []*cobra.Command{newVerifyCommand()}},
		{"Testbeds:", []*cobra.Command{newCleanupCommand()}},
	}
	for _, group := range groups {
		root.AddGroup(&cobra.Group{ID: group.title, Title: group.title})
		for _, c := range group.commands {
			c.GroupID = group.title
			root.AddCommand(c)
		}
	}
	root.AddCommand(newVersionCommand())
	commandline.RefuseUnknown(root, func(err error) error { return usageError{err} })
	// Commands for other programs.
	for _, c := range []*cobra.Command{newAgentCommand(), newWaitCommand()} {
		c.Hidden = true
		root.AddCommand(c)
	}
	return root.ExecuteContext(ctx)
}

// gone says what replaces a command of an earlier build.
var gone = map[string]string{
	"paper": "a test recomputes the reports' tables, go -C lab test ./paper/recomputed; " +
		"mcmwlab report --paper sets them beside records",
	"faults":  "it is a test program of the repository, go -C test/faults run . --help",
	"fill":    "it is a script of the repository, .ci/fill PAGE",
	"export":  "mcmwlab show RECORD --export csv writes the tables as files",
	"predict": "mcmwlab model takes its flags",
	"testbed": "mcmwlab check --machines measures emulated machines",
	"soak":    "it is a test program of the repository, go -C test/faults run . soak --help",
}

// earlierFlags has the present spelling of flags that had others, in all commands or in the one before a blank.
var earlierFlags = map[string]string{
	"select": "--where", "figures": "--out", "output": "--out",
	"metric": "one condition with --below, such as --slo 'p99 < 1ms'",
	"below":  "one condition with --metric, such as --slo 'p99 < 1ms'",
	"json":   "--format json", "summary": "a test, go -C lab test ./foreign",
	"model clients": "--set clients=N", "model workers": "--set workers=N",
	"model middlewares": "--set middlewares=N", "model depth": "--set depth=N", "model servers": "--set servers=N",
	"model replicas": "--set replicas=N", "model round-trip": "--set round_trip=TIME",
	"model target-rate": "a condition, such as --slo 'throughput >= 20000'",
	"model target-p99":  "a condition, such as --slo 'p99 <= 5ms'",
	"model cost-worker": "--cost worker=N", "model cost-middleware": "--cost middleware=N",
	"model cost-server": "--cost server=N", "factorial source": "part of --response, as in SOURCE.METRIC",
	"compare source":   "part of the metric, as in SOURCE.METRIC",
	"load unix-socket": "--target unix:PATH", "load S": "--target unix:PATH", "load trace": "--rate trace:FILE",
	"load rate-limiting": "--rate N/connection", "load think-pattern": "--think-time exponential:MEAN",
	"load data-size-range": "--data-size MIN-MAX", "load data-size-list": "--data-size SIZE:WEIGHT,...",
	"load data-size-pattern": "--data-size MIN-MAX/S", "load data-size-distribution": "--data-size DISTRIBUTION",
	"load key-stddev": "--key-pattern GMEDIAN,DEVIATION:...", "load key-median": "--key-pattern GMEDIAN,DEVIATION:...",
	"load key-zipf-exp": "--key-pattern ZEXPONENT:...", "load csv-out-file": "--out-file FILE.csv",
	"load hdr-file-prefix": "--out-file hdr:PREFIX", "load memtier": "--driver memtier=PATH",
	"mcmw": "--program mcmw=PATH", "memcached": "--program memcached=PATH", "redis": "--program redis=PATH",
	"proxy-binary": "--program proxy=PATH",
	"run testbed":  "--set testbed=KIND", "run inventory": "--set 'testbed={kind: ssh, inventory: FILE}'",
	"run values":         "--set 'testbed={kind: kubernetes, values: [FILE]}'",
	"run delay":          "--set testbed.delay=TIME, with an --out-dir for each",
	"factorial log-base": "--model multiplicative:BASE", "factorial anova": "--model anova",
}

// The arguments of commands.
var (
	noArguments = arguments(0, 0, "flags only")
	oneRecord   = arguments(1, 1, "the directory of one record")
	someFiles   = arguments(1, -1, "the files of experiments")
)

// arguments requires from least to most arguments, or at least least if most is negative. description names them in the
// error.
func arguments(least, most int, description string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || (most >= 0 && len(args) > most) {
			return usageError{fmt.Errorf("%s takes %s, got %q (see %s --help)", cmd.CommandPath(), description, args,
				cmd.CommandPath())}
		}
		return nil
	}
}

// usageError is an error of the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// exitCode prints err, if any, and returns the exit code.
func exitCode(err error, stderr io.Writer) int {
	if err == nil {
		return 0
	}
	fmt.Fprintf(stderr, "mcmwlab: %v\n", err)
	if judged, ok := errors.AsType[conditionError](err); ok {
		return judged.code
	}
	if _, ok := errors.AsType[usageError](err); ok {
		return exitUsage
	}
	return exitFailed
}

// oneOfEach returns an error if a value of a flag is not one of the accepted ones.
func oneOfEach(flag string, values, accepted []string) error {
	for _, value := range values {
		if !slices.Contains(accepted, value) {
			return usageError{fmt.Errorf("--%s %q: expected one of %s", flag, value, strings.Join(accepted, ", "))}
		}
	}
	return nil
}

// checkConfidence checks the flag --confidence.
func checkConfidence(confidence float64) error {
	if !(confidence > 0 && confidence < 1) {
		return usageError{fmt.Errorf("--confidence %v: expected more than 0 and less than 1, such as 0.95", confidence)}
	}
	return nil
}

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print version, commit and Go version",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "mcmwlab %s\n", build)
			return err
		},
	}
}

// formatHelp is the help of the flag --format.
var formatHelp = "format of the output: " + strings.Join(table.Formats, ", ")

// answers makes cmd a command that answers with a page, also if there is an error, too. It defines the flags --format
// and, for a page with figures, --out.
func answers(cmd *cobra.Command, figures bool, page func(*cobra.Command, []string) (table.Page, error)) *cobra.Command {
	var format, dir string
	cmd.Flags().StringVar(&format, "format", table.Text, formatHelp)
	if figures {
		cmd.Flags().StringVarP(&dir, "out", "o", "", "write the figures as SVG to this directory, too")
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := oneOfEach("format", []string{format}, table.Formats); err != nil {
			return err
		}
		p, err := page(cmd, args)
		if p.Blocks == nil {
			return err
		}
		if dir != "" {
			if err := p.Save(dir); err != nil {
				return err
			}
		}
		return cmp.Or(p.Write(cmd.OutOrStdout(), format), err)
	}
	return cmd
}

// defineWhere defines the flag --where.
func defineWhere(flags *pflag.FlagSet, where *map[string]string) {
	flags.StringToStringVar(where, "where", nil,
		"FACTOR=LEVEL: use only runs with this level; repeatable, or several with commas")
}
