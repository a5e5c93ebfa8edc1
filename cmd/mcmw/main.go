// Command mcmw is a middleware between memcached clients and memcached servers. `mcmw help` lists its commands.
//
// The exit code is 0 on success, 1 on failure, 2 when the flags, the environment or the configuration file are invalid,
// and 130 when a signal ended a command other than serve before it had a result.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"mcmw/internal/buildinfo"
	"mcmw/internal/commandline"
	"mcmw/internal/config"
	"mcmw/internal/terminal"
)

// version is set when linking: -X main.version=...
var version string

// build is the version of this program.
var build = buildinfo.Read(version)

// Exit codes.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2   // the flags, the environment or the configuration file are invalid
	exitInterrupted = 130 // by a signal, before there was a result
)

func main() {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		<-signals
		cancel()
		die(<-signals)
	}()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// die ends the process with the default action of s.
func die(s os.Signal) {
	signal.Reset(s)
	_ = syscall.Kill(os.Getpid(), s.(syscall.Signal))
}

// run executes the command line args, with the environment of the process, and returns the exit code. When ctx is done,
// the command finishes in an orderly way.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRootCommand()
	accepted := false // whether flags and arguments are valid: later errors are not about the command line
	// cobra calls this before it makes this check itself
	root.PersistentPreRunE = func(c *cobra.Command, _ []string) error {
		err := c.ValidateFlagGroups()
		accepted = err == nil
		return err
	}
	root.SetArgs(config.JoinToggles(args))
	root.SetOut(stdout)
	root.SetErr(stderr)
	commandline.RefuseUnknown(root, func(err error) error { return err })
	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	if ctx.Err() != nil && command.Name() != "serve" { // to serve until a signal is no failure; an error then is one
		fmt.Fprintln(stderr, "mcmw: interrupted")
		return exitInterrupted
	}
	for line := range strings.Lines(err.Error()) {
		if line = strings.TrimSpace(line); line != "" {
			fmt.Fprintf(stderr, "mcmw: %s\n", line)
		}
	}
	if _, refused := errors.AsType[config.Problems](err); refused {
		return exitUsage
	}
	if !accepted {
		fmt.Fprintf(stderr, "mcmw: see %s --help\n", command.CommandPath())
		return exitUsage
	}
	return exitFailed
}

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "mcmw",
		Short: "A proxy between memcached clients and memcached servers",
		Long: "mcmw is a proxy for memcached: clients use it like one server, and it distributes their keys " +
			"over many.",
		Version:       build.String(),
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetFlagErrorFunc(commandline.ExplainFlagError)
	root.AddCommand(newServeCommand(), newConfigCommand(), newDemoCommand(), newTopCommand(), newAdviseCommand(),
		newPingCommand(), newVerifyCommand(), newWaitCommand(), newMigrateCommand(), newManualCommand(),
		newVersionCommand())
	return root
}

// newLogger returns the log as configured by c, written to w, and its level, which may be changed.
func newLogger(w io.Writer, c *config.Config) (*slog.Logger, *slog.LevelVar) {
	level := new(slog.LevelVar)
	level.Set(c.LogLevel)
	options := &slog.HandlerOptions{Level: level}
	if c.LogFormat == config.LogText || c.LogFormat != config.LogJSON && terminal.Is(w) {
		return slog.New(slog.NewTextHandler(w, options)), level
	}
	return slog.New(slog.NewJSONHandler(w, options)), level
}

func newVersionCommand() *cobra.Command {
	var output string
	command := &cobra.Command{
		Use:   "version",
		Short: "Print the version, the commit and the Go version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output == "json" {
				return writeJSON(cmd.OutOrStdout(), build)
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "mcmw %s\n", build)
			return err
		},
	}
	oneOf(command, &output, "output", "o", "output format", "text", "json")
	return command
}

// writeJSON writes v as indented JSON.
func writeJSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(v)
}

// newManualCommand returns the hidden command that writes the manual pages and the completion scripts for packages.
func newManualCommand() *cobra.Command {
	command := &cobra.Command{
		Use:    "manual DIRECTORY",
		Short:  "Write manual pages and completion scripts to man and completion in a directory",
		Args:   cobra.ExactArgs(1),
		Hidden: true,
	}
	command.RunE = func(cmd *cobra.Command, args []string) error {
		root, man, completion := cmd.Root(), filepath.Join(args[0], "man"), filepath.Join(args[0], "completion")
		for _, dir := range []string{man, completion} {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return err
			}
		}
		for name, page := range commandline.Manual(root, build.Version) {
			if err := os.WriteFile(filepath.Join(man, name+".1"), []byte(page), 0o644); err != nil {
				return err
			}
		}
		for shell, write := range map[string]func(string) error{
			"bash": func(path string) error { return root.GenBashCompletionFileV2(path, true) },
			"zsh":  root.GenZshCompletionFile,
			"fish": func(path string) error { return root.GenFishCompletionFile(path, true) },
		} {
			if err := write(filepath.Join(completion, "mcmw."+shell)); err != nil {
				return err
			}
		}
		return nil
	}
	return command
}
