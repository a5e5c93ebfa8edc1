package main

import (
	"cmp"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"mcmw/internal/admin"
)

func newMigrateCommand() *cobra.Command {
	status := &cobra.Command{
		Use:   "status URL",
		Short: "Show the progress of migrations",
		Long: "Show the migrations in the configuration of a running middleware: the phase, how many keys are " +
			"copied, how long the others\n" +
			"will take, and what to do next. URL is the middleware's admin address. The exit code is 1 if a " +
			"migration needs attention.",
		Example: "  mcmw migrate status http://127.0.0.1:9150\n  mcmw migrate status 127.0.0.1:9150 --json",
		Args:    adminAddress,
	}
	asJSON := status.Flags().Bool("json", false, "print JSON")
	status.RunE = func(cmd *cobra.Command, args []string) error {
		report, err := admin.Fetch(cmd.Context(), args[0], admin.NoPoints)
		if err != nil {
			return err
		}
		return showMigrations(cmd.OutOrStdout(), report.Migrations, *asJSON)
	}
	return group("migrate", "Follow migrations of keys between pools", status)
}

// showMigrations prints migrations. It returns an error that names the first one that needs attention.
func showMigrations(out io.Writer, migrations []admin.Migration, asJSON bool) error {
	var attention error
	for _, m := range migrations {
		if m.Warning && attention == nil {
			attention = fmt.Errorf("the migration from %s to %s needs attention", m.From, m.To)
		}
	}
	if asJSON {
		return cmp.Or(writeJSON(out, migrations), attention)
	}
	if len(migrations) == 0 {
		_, err := fmt.Fprintln(out, "no migrations are configured")
		return err
	}
	for _, m := range migrations {
		if _, err := fmt.Fprintf(out, "%s\n  next: %s\n", m.Text, m.Next); err != nil {
			return err
		}
	}
	return attention
}
