package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mcmw/internal/lab/agent"
	"mcmw/internal/lab/process"
)

// newAgentCommand returns the command by which testbeds do on their hosts what isn't load.
func newAgentCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "What experiments do on hosts: sample, measure the path or make it longer, describe, await",
		Long:  `What "mcmwlab run" does on the hosts of a testbed beside the load. Results are JSON on standard output.`,
		Args:  noArguments,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newSampleCommand(), newPathServerCommand(), newPathCommand(), newDelayCommand(), newDescribeCommand(), newAwaitCommand())
	return cmd
}

func newSampleCommand() *cobra.Command {
	var processes []string
	interval := time.Second
	cmd := &cobra.Command{
		Use:   "sample",
		Short: "Write the counters of this host and of processes once a second, until interrupted",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			pids := map[string]int{}
			for _, text := range processes {
				at := strings.LastIndexByte(text, '=')
				pid, err := strconv.Atoi(text[at+1:])
				if at < 1 || err != nil || pid < 1 {
					return usageError{fmt.Errorf("--process %q: expected NAME=ID with the id of a process", text)}
				}
				pids[text[:at]] = pid
			}
			if interval < time.Millisecond {
				return usageError{fmt.Errorf("--interval %v: expected at least 1ms", interval)}
			}
			return agent.Sample(cmd.Context(), cmd.OutOrStdout(), pids, interval)
		},
	}
	cmd.Flags().StringArrayVar(&processes, "process", nil, "NAME=ID of a process to watch; repeatable")
	cmd.Flags().Var((*seconds)(&interval), "interval", "time between samples: seconds, or a duration")
	return cmd
}

func newPathServerCommand() *cobra.Command {
	var address string
	cmd := &cobra.Command{
		Use:   "path-server",
		Short: "Answer measurements of the path to this host, until interrupted",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			listener, err := (&net.ListenConfig{}).Listen(cmd.Context(), "tcp", address)
			if err != nil {
				return err
			}
			return agent.ServePath(cmd.Context(), listener)
		},
	}
	cmd.Flags().StringVar(&address, "listen", "127.0.0.1:0", "host:port to listen on")
	return cmd
}

func newPathCommand() *cobra.Command {
	var to string
	bulk := 500 * time.Millisecond
	cmd := &cobra.Command{
		Use:   "path",
		Short: "Measure round-trip time and bandwidth to a path-server",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), process.ReadyTimeout)
			defer cancel()
			if err := agent.Await(ctx, "tcp", to); err != nil {
				return err
			}
			p, err := agent.MeasurePath(cmd.Context(), to, bulk)
			if err != nil {
				return err
			}
			return json.NewEncoder(cmd.OutOrStdout()).Encode(p)
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "host:port of the path-server")
	cmd.Flags().Var((*seconds)(&bulk), "bulk", "how long each direction carries bulk: seconds, or a duration")
	return cmd
}

func newDelayCommand() *cobra.Command {
	var address, to string
	var delay time.Duration
	cmd := &cobra.Command{
		Use:   "delay",
		Short: "Pass connections on to a server and hold its replies back, until interrupted",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, _, err := net.SplitHostPort(to); err != nil {
				return usageError{fmt.Errorf("--to %q: expected the host:port of a server", to)}
			}
			listener, err := (&net.ListenConfig{}).Listen(cmd.Context(), "tcp", address)
			if err != nil {
				return err
			}
			return agent.ServeDelay(cmd.Context(), listener, to, delay)
		},
	}
	cmd.Flags().StringVar(&address, "listen", "127.0.0.1:0", "host:port to listen on")
	cmd.Flags().StringVar(&to, "to", "", "host:port of the server")
	cmd.Flags().Var((*seconds)(&delay), "for", "how long a reply is held back: seconds, or a duration")
	return cmd
}

func newDescribeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "describe",
		Short: "Say what kind of host this is",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return json.NewEncoder(cmd.OutOrStdout()).Encode(agent.Describe())
		},
	}
}

func newAwaitCommand() *cobra.Command {
	patience := process.ReadyTimeout
	cmd := &cobra.Command{
		Use:   "await HOST:PORT...",
		Short: "Wait until memcached servers or middlewares answer a request",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, addresses []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), patience)
			defer cancel()
			for _, address := range addresses {
				if err := agent.Await(ctx, "memcached", address); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().Var((*seconds)(&patience), "for", "how long to wait: seconds, or a duration")
	return cmd
}
