package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"mcmw/internal/lab/driver"
	"mcmw/internal/lab/load"
	"mcmw/internal/lab/process"
)

// The drivers of `mcmwlab load`.
const (
	driverOwn     = load.DriverOwn
	driverMemtier = driver.Name
)

// driverFlags select the load generator.
type driverFlags struct {
	name    string
	memtier driver.Memtier
}

func (d *driverFlags) define(flags *pflag.FlagSet) {
	flags.StringVar(&d.name, "driver", driverOwn, "load generator: mcmwlab, or memtier (memtier_benchmark, if installed)")
	flags.StringVar(&d.memtier.Path, "memtier", "", "path of memtier_benchmark (default: the one in PATH)")
}

func (d *driverFlags) check() error {
	if d.name != driverOwn && d.name != driverMemtier {
		return fmt.Errorf("--driver %q: expected mcmwlab or memtier", d.name)
	}
	return nil
}

// runMemtier runs the load with memtier_benchmark.
func (d *driverFlags) runMemtier(ctx context.Context, o load.Options, quiet bool, stderr io.Writer) (*load.Result, error) {
	complete, err := o.Complete()
	if err == nil {
		_, err = driver.Arguments(complete)
	}
	if err != nil {
		return nil, usageError{err}
	}
	if !quiet {
		p := newProgress(stderr)
		p.show("memtier_benchmark runs for " + lengthOf(complete))
		defer p.clear()
	}
	return d.memtier.Run(ctx, o)
}

// lengthOf describes the length of a load.
func lengthOf(o load.Options) string {
	if o.Duration > 0 {
		return o.Duration.String()
	}
	return fmt.Sprintf("%d requests per connection", o.Requests)
}

// agreementFlags are the flags of `mcmwlab load agreement`.
type agreementFlags struct {
	options  driver.CompareOptions
	within   float64
	markdown string
	quiet    bool
}

func newAgreementCommand(args []string, stderr io.Writer) *cobra.Command {
	var f agreementFlags
	o := &f.options
	cmd := &cobra.Command{
		Use:   "agreement",
		Short: "Compare this load generator with memtier_benchmark",
		Long: `Compare this load generator with memtier_benchmark: the same closed loops against the same memcached, in turn, each a process
of its own. Prints medians of throughput, mean response time and CPU time per request, and the ratios, ours divided
by memtier's. Starts a memcached of one thread, unless --target names one. Leave the machine idle otherwise.`,
		Example: `  mcmwlab load agreement --rounds 5 --test-time 3`,
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd.Context(), args, cmd.OutOrStdout(), stderr)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.Target, "target", "", "host:port of a memcached (default: one is started)")
	flags.StringVar(&o.Memtier.Path, "memtier", "", "path of memtier_benchmark (default: the one in PATH)")
	flags.StringVar(&o.Mcmwlab, "mcmwlab", "", "path of mcmwlab (default: this program)")
	flags.IntVar(&o.Rounds, "rounds", 5, "number of rounds")
	flags.Var((*seconds)(&o.Duration), "test-time", "length of a measurement, whole seconds (default 3)")
	flags.Float64Var(&f.within, "within", 0.03, "relative difference of throughput and mean response time that is accepted")
	flags.StringVar(&f.markdown, "markdown", "", "replace what is between <!-- agreement --> and <!-- end of agreement --> in this file")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "show no progress")
	return cmd
}

// run compares and writes the table, even after an error, for the rounds before it.
func (f *agreementFlags) run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o := f.options
	if o.Rounds < 1 {
		return usageError{fmt.Errorf("--rounds %d: expected at least 1", o.Rounds)}
	}
	if o.Duration == 0 {
		o.Duration = 3 * time.Second
	}
	if o.Duration%time.Second != 0 {
		return usageError{fmt.Errorf("--test-time %v: memtier_benchmark takes whole seconds", o.Duration)}
	}
	version, err := o.Memtier.Version(ctx)
	if err != nil {
		return usageError{err}
	}
	if o.Mcmwlab == "" {
		if o.Mcmwlab, err = os.Executable(); err != nil {
			return err
		}
	}
	if o.Target == "" {
		server, err := process.Launch(ctx, "memcached", process.Loopback, oneThread)
		if err != nil {
			return err
		}
		defer server.Stop(syscall.SIGTERM)
		o.Target = server.Addr
	}
	p := newProgress(stderr)
	defer p.clear()
	if !f.quiet {
		o.Progress = func(round int, name, generator string) {
			p.show(fmt.Sprintf("round %d of %d: %s: %s", round, o.Rounds, name, generator))
		}
	}
	all, err := driver.Compare(ctx, o)
	p.clear()
	var text strings.Builder
	fmt.Fprintf(&text, "Measured on %s by\n\n    mcmwlab %s\n\n%d rounds of %v; %s.\n\n", time.Now().UTC().Format("2 January 2006, 15:04 UTC"),
		strings.Join(args, " "), o.Rounds, o.Duration, version)
	if writeErr := driver.WriteMarkdown(&text, all, f.within); writeErr != nil {
		return writeErr
	}
	if _, writeErr := io.WriteString(stdout, text.String()); writeErr != nil {
		return writeErr
	}
	if err != nil || f.markdown == "" {
		return err
	}
	page, err := os.ReadFile(f.markdown)
	if err != nil {
		return err
	}
	if page, err = replaceSection(page, "agreement", []byte(text.String())); err != nil {
		return fmt.Errorf("%s: %w", f.markdown, err)
	}
	return os.WriteFile(f.markdown, page, 0o644)
}

// oneThread is the memcached that both generators load.
func oneThread(port int) (*exec.Cmd, error) {
	path, err := exec.LookPath("memcached")
	if err != nil {
		return nil, fmt.Errorf("memcached: %w; install it, or say with --target where one is", err)
	}
	args := []string{"-l", process.Loopback, "-p", strconv.Itoa(port), "-U", "0", "-t", "1", "-m", "256"}
	if os.Getuid() == 0 {
		args = append(args, "-u", "root") // it refuses to run as root unless told to
	}
	return exec.Command(path, args...), nil
}
