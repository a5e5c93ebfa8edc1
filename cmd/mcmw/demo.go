package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mcmw/internal/demo"
	"mcmw/internal/middleware"
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

func addDemoFlags(command *cobra.Command) *demo.Options {
	o := &demo.Options{
		Clients: 32, Workers: middleware.DefaultWorkers(), Depth: middleware.DefaultDepth, ValueSize: 64,
		Ratio: demo.Ratio{Sets: 1, Gets: 9}, Version: build.Version,
	}
	flags := command.Flags()
	flags.SortFlags = false
	number := func(value *int, name string, low, high int, help string) {
		flags.Var(&checked[int]{value, between(low, high), "number"}, name, help)
	}
	number(&o.Clients, "clients", 1, 4096, "`number` of connections of the load, each with one request at a time")
	number(&o.Workers, "workers", 1, 512, "`number` of workers of the middleware")
	number(&o.Depth, "depth", 1, 4096, "maximum `number` of requests a worker takes at a time; 1: synchronous workers")
	number(&o.ValueSize, "value-size", 1, 1_000_000, "size of the values in `bytes`")
	number(&o.MultiGet, "multi-get", 0, 1000,
		fmt.Sprintf("`number` of keys per GET; 0 means 1, or %d with --sharded", demo.ShardedKeys))
	flags.Var(&checked[demo.Ratio]{&o.Ratio, parseRatio, "sets:gets"}, "ratio", "ratio of SETs to GETs")
	flags.Var(&checked[demo.Replicas]{&o.Replicas, parseReplicas, "all|number"}, "replicas",
		"number of servers that hold each key")
	flags.BoolVar(&o.Sharded, "sharded", false, "split multi-gets over the servers that hold their keys")
	flags.StringVar(&o.Admin, "admin", "127.0.0.1:9150", `address of the live page and the metrics; "": no page`)
	flags.Var(&checked[time.Duration]{&o.Duration, parseSpan, "duration"}, "duration",
		"how long the demo runs; 0s: until interrupted")
	return o
}

// between parses a number from low to high.
func between(low, high int) func(string) (int, error) {
	return func(text string) (int, error) {
		n, err := strconv.Atoi(text)
		if err != nil || n < low || n > high {
			return 0, fmt.Errorf("accepted: %d to %d", low, high)
		}
		return n, nil
	}
}

func parseRatio(text string) (demo.Ratio, error) {
	sets, gets, found := strings.Cut(text, ":")
	s, errSets := between(0, 1000)(sets)
	g, errGets := between(0, 1000)(gets)
	if !found || errSets != nil || errGets != nil || s+g == 0 {
		return demo.Ratio{}, fmt.Errorf("accepted: SETs:GETs such as 1:9, each 0 to 1000, not both 0")
	}
	return demo.Ratio{Sets: s, Gets: g}, nil
}

func parseReplicas(text string) (demo.Replicas, error) {
	if text == "all" {
		return 0, nil
	}
	n, err := between(1, demo.Servers)(text)
	if err != nil {
		return 0, fmt.Errorf("accepted: all, or 1 to %d, the number of servers", demo.Servers)
	}
	return demo.Replicas(n), nil
}

func parseSpan(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("accepted: a duration such as 30s or 1m30s, or 0s")
	}
	return d, nil
}
