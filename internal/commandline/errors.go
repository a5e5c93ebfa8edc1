// Package commandline explains errors of the command line, and writes its manual pages. Both programs share it.
package commandline

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"mcmw/internal/userinput"
)

// ExplainFlagError adds to cmd's error of an unknown flag the flag of cmd that was probably meant or, without one, the
// commands that have the flag. Other errors are returned as they are.
func ExplainFlagError(cmd *cobra.Command, err error) error {
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return err
	}
	name := unknown.GetSpecifiedName()
	var own []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if visible(f) {
			own = append(own, "--"+f.Name)
		}
	})
	if hint := userinput.DidYouMean("--"+name, own); hint != "" {
		return fmt.Errorf("%w%s", err, hint)
	}
	lookup := (*pflag.FlagSet).Lookup
	if unknown.GetSpecifiedShortnames() != "" {
		lookup = (*pflag.FlagSet).ShorthandLookup
	}
	if others := commandsWith(cmd.Root(), name, lookup); len(others) > 0 {
		return fmt.Errorf("%w; it is a flag of %s", err, strings.Join(others, ", "))
	}
	return err
}

// commandsWith returns the paths of the visible commands from cmd on that have the flag that lookup finds by its name.
func commandsWith(cmd *cobra.Command, name string, lookup func(*pflag.FlagSet, string) *pflag.Flag) []string {
	var paths []string
	if f := lookup(cmd.Flags(), name); f != nil && visible(f) {
		paths = append(paths, cmd.CommandPath())
	}
	for _, c := range cmd.Commands() {
		if !c.Hidden {
			paths = append(paths, commandsWith(c, name, lookup)...)
		}
	}
	return paths
}

func visible(f *pflag.Flag) bool { return !f.Hidden && f.Deprecated == "" }

// RefuseUnknown makes cobra's own commands help and completion of root fail if their arguments name no command: cobra
// prints some other help then, and succeeds. usage makes the program's error of the command line from an error. The
// outputs of root are already set.
func RefuseUnknown(root *cobra.Command, usage func(error) error) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	checked := func(check cobra.PositionalArgs) cobra.PositionalArgs {
		return func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return usage(err)
			}
			return nil
		}
	}
	for _, c := range root.Commands() {
		switch c.Name() {
		case "help":
			c.Args = checked(checkTopic)
		case "completion":
			c.Args = checked(cobra.NoArgs)
			c.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
			for _, shell := range c.Commands() {
				shell.Args = checked(cobra.NoArgs)
			}
		}
	}
}

// checkTopic returns an error if args, the arguments of help, are not the path of a command, and prints the commands
// that exist.
func checkTopic(help *cobra.Command, args []string) error {
	found, rest, err := help.Root().Find(args)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("unknown command %q for %q", rest[0], found.CommandPath())
	}
	if err != nil && found.HasAvailableSubCommands() {
		found.InitDefaultHelpFlag() // the usage mentions flags
		help.PrintErr(found.UsageString())
	}
	return err
}
