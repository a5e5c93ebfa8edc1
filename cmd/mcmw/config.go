package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"mcmw/internal/config"
)

func newConfigCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "config",
		Short: "Check, print, explain or import the configuration",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	command.AddCommand(newConfigCheckCommand(), newConfigPrintCommand(), newConfigExplainCommand(), newConfigImportCommand(), newConfigDocsCommand())
	return command
}

func newConfigCheckCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "check [flags] [-m server server...]",
		Short: "Check whether `mcmw serve` accepts this configuration, and list every error",
		Example: "  mcmw config check --config mcmw.yaml\n" +
			"  MCMW_WORKERS=64 mcmw config check --servers cache1,cache2",
	}
	flags := addOptions(command)
	command.RunE = func(cmd *cobra.Command, args []string) error {
		flags.SetArguments(args)
		c, err := config.Load(config.Sources{Flags: flags, Env: os.Environ()})
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
		c, err := config.Read(config.Sources{Flags: flags, Env: os.Environ()})
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
