package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"mcmw/internal/config/importer"
)

func newConfigImportCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "import FILE",
		Short: "Translate the configuration of twemproxy or mcrouter",
		Long: "Write the configuration of twemproxy (YAML) or mcrouter (JSON) in FILE as one of mcmw, with the reason of each value, to the standard output.\n" +
			"What only moves keys, and so costs a cold cache, is a comment; what would change an answer is refused with its line.",
		Example: "  mcmw config import nutcracker.yml > mcmw.yaml\n" +
			"  mcmw config import nutcracker.yml --pool beta --leave-out auto_eject_hosts > beta.yaml\n" +
			"  mcmw config import mcrouter.json > mcmw.yaml",
		Args: cobra.ExactArgs(1),
	}
	var o importer.Options
	command.Flags().StringVar(&o.Pool, "pool", "", "`name` of the pool, of several in a file of twemproxy: each has its own port, so each needs an mcmw")
	command.Flags().StringSliceVar(&o.LeaveOut, "leave-out", nil, "`keys` of the file to ignore though mcmw has nothing like them")
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
