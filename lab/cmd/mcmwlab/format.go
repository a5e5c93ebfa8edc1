package main

import (
	"cmp"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"mcmw/lab/table"
)

// formatHelp is the help of the flag --format.
var formatHelp = "format of the output: " + table.Names()

// checkFormat checks the flag --format.
func checkFormat(name string) error {
	if _, err := table.ParseFormat(name); err != nil {
		return usageError{fmt.Errorf("--%w", err)}
	}
	return nil
}

// answers makes cmd a command that answers with a page, also if there is an error, too. It defines the flags --format
// and, for a page with figures, --out.
func answers(cmd *cobra.Command, figures bool, page func(*cobra.Command, []string) (table.Page, error)) *cobra.Command {
	var format, dir string
	cmd.Flags().StringVar(&format, "format", string(table.Text), formatHelp)
	if figures {
		cmd.Flags().StringVarP(&dir, "out", "o", "", "write the figures as SVG to this directory, too")
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkFormat(format); err != nil {
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
		return cmp.Or(p.Write(cmd.OutOrStdout(), table.Format(format)), err)
	}
	return cmd
}

// defineWhere defines the flag --where.
func defineWhere(flags *pflag.FlagSet, where *map[string]string) {
	flags.StringToStringVar(where, "where", nil,
		"FACTOR=LEVEL: use only runs with this level; repeatable, or several with commas")
}
