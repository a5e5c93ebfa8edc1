package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"
)

func newVersionCommand() *cobra.Command {
	var output string
	command := &cobra.Command{
		Use:   "version",
		Short: "Print version, commit and Go version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output == "json" {
				encoder := json.NewEncoder(cmd.OutOrStdout())
				encoder.SetIndent("", "  ")
				return encoder.Encode(build)
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "mcmw %s\n", build)
			return err
		},
	}
	oneOf(command, &output, "output", "o", "output format", "text", "json")
	return command
}
