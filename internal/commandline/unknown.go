package commandline

import (
	"fmt"

	"github.com/spf13/cobra"
)

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
