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
