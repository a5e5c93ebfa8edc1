package main

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"mcmw/internal/admin"
)

func newMigrateCommand() *cobra.Command {
	command := &cobra.Command{Use: "migrate", Short: "Follow the migration of a pool's keys to another pool"}
	status := &cobra.Command{
		Use:   "status URL",
		Short: "Show how far migrations are",
		Long: "Show of each migration that the middleware with this admin address is configured with: its phase, how many keys are copied and how long\n" +
			"the others will take, and what to do next. The exit code is 1 if something is not as it should be.",
		Example: "  mcmw migrate status http://127.0.0.1:9150\n  mcmw migrate status 127.0.0.1:9150 --json",
		Args:    cobra.ExactArgs(1),
	}
	asJSON := status.Flags().Bool("json", false, "as JSON")
	status.RunE = func(cmd *cobra.Command, args []string) error {
		report, err := admin.Fetch(cmd.Context(), args[0], admin.NoPoints)
		if err != nil {
			return err
		}
		return showMigrations(cmd.OutOrStdout(), report.Migrations, *asJSON)
	}
	command.AddCommand(status)
	return command
}

// showMigrations writes what is known of migrations. Its error says which is not as it should be.
func showMigrations(out io.Writer, migrations []admin.Migration, asJSON bool) error {
	var wrong error
	for _, m := range migrations {
		if m.Warning && wrong == nil {
			wrong = fmt.Errorf("the migration from %s to %s is not as it should be", m.From, m.To)
		}
	}
	if asJSON {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(migrations); err != nil {
			return err
		}
		return wrong
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
	return wrong
}
