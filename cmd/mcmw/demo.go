package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"mcmw/internal/demo"
)

func newDemoCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "demo",
		Short: "Run three memcached servers, the middleware, a load and a live page",
		Long: fmt.Sprintf("Start %d memcached servers on free ports, the middleware in front of them, and a load, "+
			"and show what\n"+
			"happens, here and on a live page. The demo runs until it is interrupted and then removes everything.",
			demo.Servers),
		Example: "  mcmw demo\n" +
			"  mcmw demo --clients 128 --workers 8 --depth 1\n" +
			"  mcmw demo --replicas 1 --sharded --duration 30s",
		Args: cobra.NoArgs,
	}
	o := addDemoFlags(command)
	command.RunE = func(cmd *cobra.Command, _ []string) error {
		return o.Run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
	}
	return command
}
