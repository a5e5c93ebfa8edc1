package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"mcmw/internal/admin"
	"mcmw/internal/config"
)

// runWith lets command run with the configuration that its flags, its arguments (servers) and the environment give.
func runWith(command *cobra.Command, run func(cmd *cobra.Command, c *config.Config) error) {
	flags := addOptions(command)
	command.RunE = func(cmd *cobra.Command, args []string) error {
		flags.SetArguments(args)
		c, err := config.Load(config.Sources{Flags: flags, Env: os.Environ()})
		if err != nil {
			return err
		}
		return run(cmd, c)
	}
}

// addOptions adds a flag for every option of the configuration to command, with shell completion.
func addOptions(command *cobra.Command) *config.Flags {
	command.Flags().SortFlags = false
	flags := config.AddFlags(command.Flags())
	for _, o := range config.Options {
		if o.TakesFile() || o.InFileOnly() {
			continue
		}
		if err := command.RegisterFlagCompletionFunc(o.Name,
			cobra.FixedCompletions(o.Words(), cobra.ShellCompDirectiveNoFileComp)); err != nil {
			panic(err) // the flag is not defined: a bug in this function
		}
	}
	return flags
}

// group returns a command that has only commands below it.
func group(name, short string, commands ...*cobra.Command) *cobra.Command {
	command := &cobra.Command{
		Use:   name,
		Short: short,
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	command.AddCommand(commands...)
	return command
}

// oneOf adds a flag to command that accepts one of words. The first is the default.
func oneOf(command *cobra.Command, value *string, name, short, help string, words ...string) {
	*value = words[0]
	parse := func(text string) (string, error) {
		if !slices.Contains(words, text) {
			return "", fmt.Errorf("accepted: %s", strings.Join(words, ", "))
		}
		return text, nil
	}
	command.Flags().VarP(&checked[string]{value, parse, strings.Join(words, "|")}, name, short, help)
	if err := command.RegisterFlagCompletionFunc(name,
		cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the flag is not defined: a bug in this function
	}
}

// oneAddress accepts one argument for which check returns no error.
func oneAddress(check func(address string) error) cobra.PositionalArgs {
	return cobra.MatchAll(cobra.ExactArgs(1), func(_ *cobra.Command, args []string) error { return check(args[0]) })
}

// adminAddress accepts one argument, the address of an admin server.
var adminAddress = oneAddress(func(address string) error {
	_, err := admin.BaseURL(address)
	return err
})

// checked is the value of a flag that is checked when it is set. It implements pflag.Value.
type checked[T any] struct {
	value *T
	parse func(string) (T, error) // its error says what is accepted
	kind  string
}

func (c *checked[T]) Set(text string) error {
	v, err := c.parse(text)
	if err == nil {
		*c.value = v
	}
	return err
}

func (c *checked[T]) String() string {
	if c.value == nil { // pflag creates a zero value to compare with
		return ""
	}
	return fmt.Sprint(*c.value)
}

func (c *checked[T]) Type() string { return c.kind }
