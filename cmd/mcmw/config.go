package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"mcmw/internal/admin"
	"mcmw/internal/config"
	"mcmw/internal/config/importer"
)

func newConfigCommand() *cobra.Command {
	return group("config", "Check, print, explain or import the configuration", newConfigCheckCommand(),
		newConfigPrintCommand(), newConfigExplainCommand(), newConfigImportCommand(), newConfigDocsCommand())
}

func newConfigCheckCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "check [flags] [-m server server...]",
		Short: "Check whether `mcmw serve` accepts this configuration, and list every error",
		Long: "Check whether `mcmw serve` accepts this configuration, and list every error. No server is contacted, " +
			"and no name is looked up.\n\n" +
			"With --against, ask a running mcmw on this machine what it would say if it reloaded the file named by " +
			"--config in place of its\n" +
			"own. It uses its own flags and environment, looks up the servers' names, and changes nothing.",
		Example: "  mcmw config check --config mcmw.yaml\n" +
			"  MCMW_WORKERS=64 mcmw config check --servers cache1,cache2\n" +
			"  mcmw config check --config next.yaml --against 127.0.0.1:9150",
	}
	against := command.Flags().String("against", "",
		"the admin `address` of a running mcmw that is to judge the file as a reload would")
	noFiles := command.Flags().Bool("no-files", false,
		"do not read certificates and passwords, which need not exist here or yet")
	flags := addOptions(command)
	command.RunE = func(cmd *cobra.Command, args []string) error {
		flags.SetArguments(args)
		if *against != "" {
			return checkAgainst(cmd, *against, args)
		}
		c, err := config.Load(config.Sources{Flags: flags, Env: os.Environ(), NoFiles: *noFiles})
		if err != nil {
			return err
		}
		for _, warning := range c.Warnings {
			fmt.Fprintf(cmd.ErrOrStderr(), "mcmw: warning: %s\n", warning)
		}
		for _, note := range c.Notes() {
			fmt.Fprintf(cmd.ErrOrStderr(), "mcmw: %s\n", note)
		}
		_, err = fmt.Fprintln(cmd.OutOrStdout(), "OK")
		return err
	}
	return command
}

// checkAgainst asks the mcmw at address what a reload of the file named by --config would say.
func checkAgainst(cmd *cobra.Command, address string, args []string) error {
	file := ""
	other := len(args) > 0
	cmd.Flags().Visit(func(f *pflag.Flag) {
		switch f.Name {
		case "config":
			file = f.Value.String()
		case "against":
		default:
			other = true
		}
	})
	if file == "" || other {
		return config.Problems{{Text: "--against checks a file with the flags and the environment of the running " +
			"mcmw; accepted with it: --config FILE, and nothing else"}}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	j, err := admin.Check(cmd.Context(), address, text)
	if err != nil {
		return err
	}
	for _, change := range j.Changes {
		fmt.Fprintln(cmd.OutOrStdout(), change)
	}
	switch problems := strings.Join(j.Problems, "\n"); {
	case j.Later:
		fmt.Fprintf(cmd.ErrOrStderr(), "mcmw: the reload would wait: %s\n", problems)
	case problems != "":
		return errors.New(problems)
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), "OK")
	return err
}

func newConfigPrintCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "print [flags] [-m server server...]",
		Short: "Print the configuration that `mcmw serve` would use, as a YAML file",
		Example: "  mcmw config print > mcmw.yaml\n" +
			"  mcmw config print --config mcmw.yaml --show-origin",
	}
	origins := command.Flags().Bool("show-origin", false, "show where each value comes from")
	flags := addOptions(command)
	command.RunE = func(cmd *cobra.Command, args []string) error {
		flags.SetArguments(args)
		c, err := config.Load(config.Sources{Flags: flags, Env: os.Environ(), Incomplete: true})
		if err != nil {
			return err
		}
		return c.Write(cmd.OutOrStdout(), *origins)
	}
	return command
}

// newConfigDocsCommand returns the hidden command that writes docs/configuration.md.
func newConfigDocsCommand() *cobra.Command {
	command := &cobra.Command{
		Use:    "docs",
		Short:  "Print the documentation of all options as Markdown",
		Args:   cobra.NoArgs,
		Hidden: true,
	}
	path := command.Flags().String("write", "", "`file` to write to instead of the standard output")
	command.RunE = func(cmd *cobra.Command, _ []string) error {
		if *path != "" {
			return os.WriteFile(*path, []byte(config.Documentation()), 0o644)
		}
		_, err := io.WriteString(cmd.OutOrStdout(), config.Documentation())
		return err
	}
	return command
}

func newConfigImportCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "import FILE",
		Short: "Translate the configuration of twemproxy or mcrouter",
		Long: "Translate FILE, a configuration of twemproxy (YAML) or mcrouter (JSON), into a configuration of mcmw, " +
			"and print it with\n" +
			"the reason for each value. A difference that only moves keys, and so costs a cold cache, becomes a " +
			"comment. A setting\n" +
			"that mcmw cannot express, so that answers would change, is an error that names its line.",
		Example: "  mcmw config import nutcracker.yml > mcmw.yaml\n" +
			"  mcmw config import nutcracker.yml --pool beta --leave-out auto_eject_hosts > beta.yaml\n" +
			"  mcmw config import mcrouter.json > mcmw.yaml",
		Args: cobra.ExactArgs(1),
	}
	var o importer.Options
	command.Flags().StringVar(&o.Pool, "pool", "",
		"`name` of the pool to translate, if a file of twemproxy has several: each needs its own mcmw, because it "+
			"has its own port")
	command.Flags().StringSliceVar(&o.LeaveOut, "leave-out", nil,
		"`keys` of the file to ignore, although mcmw has no equivalent")
	command.RunE = func(cmd *cobra.Command, args []string) error {
		content, err := os.ReadFile(args[0])
		if err != nil {
			return fmt.Errorf("cannot read the file: %w", err)
		}
		o.Now = time.Now()
		result, err := importer.Import(args[0], content, o)
		if err != nil {
			return err
		}
		_, err = cmd.OutOrStdout().Write(result)
		return err
	}
	return command
}
