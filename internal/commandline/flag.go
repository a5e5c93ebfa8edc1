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
