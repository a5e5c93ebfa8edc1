package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mcmw/internal/lab/agent"
	"mcmw/internal/lab/process"
	"mcmw/internal/lab/testbed"
	"mcmw/internal/lab/testbed/remote"
)

// newAgentCommand returns the command with which testbeds run helpers on their hosts.
func newAgentCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Helper commands for the hosts of a testbed",
		Long:  `Helper commands that "mcmwlab run" calls on the hosts of a testbed. Results are JSON on standard output.`,
		Args:  noArguments,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newSampleCommand(), newPathServerCommand(), newPathCommand(), newDelayCommand(), newDescribeCommand(), newAwaitCommand(), newServeCommand(), newPinCommand(), newScratchCommand(), newConfiguredCommand())
	return cmd
}

func newSampleCommand() *cobra.Command {
	var processes []string
	var watched agent.Watched
	interval := time.Second
	cmd := &cobra.Command{
		Use:   "sample",
		Short: "Print the counters of this host and of processes once a second, until interrupted",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			usages := map[string]agent.Usage{}
			for _, text := range processes {
				name, of, _ := strings.Cut(text, "=")
				pid, err := strconv.Atoi(of)
				switch {
				case name != "" && err == nil && pid > 0:
					usages[name] = agent.UsageOf(pid)
				case name != "" && strings.HasPrefix(of, "http://"):
					usages[name] = agent.UsageAt(of)
				default:
					return usageError{fmt.Errorf("--process %q: expected NAME=ID with the id of a process, or NAME=http://... with its metrics", text)}
				}
			}
			if interval < time.Millisecond {
				return usageError{fmt.Errorf("--interval %v: expected at least 1ms", interval)}
			}
			if len(watched.Group) > 0 && watched.CPUs <= 0 {
				return usageError{fmt.Errorf("--group-cpus %g: expected more than 0, the processors that the group may use", watched.CPUs)}
			}
			watched.Processes = usages
			return agent.Sample(cmd.Context(), cmd.OutOrStdout(), watched, interval)
		},
	}
	cmd.Flags().StringArrayVar(&processes, "process", nil, "NAME=ID of a process to watch, or NAME=http://... of its metrics; repeatable")
	cmd.Flags().StringArrayVar(&watched.Group, "group", nil, "directory of a control group that is sampled as the host; repeatable, one for each hierarchy")
	cmd.Flags().Float64Var(&watched.CPUs, "group-cpus", 0, "processors that the group may use")
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
	cmd.Flags().Var((*seconds)(&bulk), "bulk", "how long to measure the bandwidth of each direction: seconds, or a duration")
	return cmd
}

func newDelayCommand() *cobra.Command {
	var address, to string
	var delay time.Duration
	cmd := &cobra.Command{
		Use:   "delay",
		Short: "Forward connections to a server and delay its replies, until interrupted",
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
	cmd.Flags().Var((*seconds)(&delay), "for", "delay of each reply: seconds, or a duration")
	return cmd
}

func newDescribeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "describe",
		Short: "Describe this host",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return json.NewEncoder(cmd.OutOrStdout()).Encode(agent.Describe())
		},
	}
}

func newServeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "serve",
		Short: "Start and stop programs as instructed on standard input; when it ends, stop all of them",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			host, err := testbed.Local().Host(testbed.Load, 0)
			if err != nil {
				return err
			}
			return remote.Serve(cmd.Context(), os.Stdin, cmd.OutOrStdout(), host, build.Version)
		},
	}
}

func newAwaitCommand() *cobra.Command {
	patience := process.ReadyTimeout
	cmd := &cobra.Command{
		Use:   "await HOST:PORT...",
		Short: "Wait until servers or middlewares answer a request",
		Args:  arguments(1, -1, "addresses"),
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

func newPinCommand() *cobra.Command {
	var pid, first, threads int
	cmd := &cobra.Command{
		Use:   "pin",
		Short: "Pin a server, or each of its threads that serve requests, to a processor",
		Args:  noArguments,
		RunE: func(*cobra.Command, []string) error {
			if pid < 1 || first < 0 || threads < 0 {
				return usageError{fmt.Errorf("--process %d --first %d --threads %d: expected the id of a process, and numbers from 0", pid, first, threads)}
			}
			return agent.Pin(pid, first, threads)
		},
	}
	cmd.Flags().IntVar(&pid, "process", 0, "id of the process")
	cmd.Flags().IntVar(&first, "first", 0, "number of the first processor, of those that this process may use")
	cmd.Flags().IntVar(&threads, "threads", 0, "threads that serve requests, each of which gets a processor; 0: all threads get one")
	return cmd
}

func newConfiguredCommand() *cobra.Command {
	var config string
	cmd := &cobra.Command{
		Use:   "configured --config TEXT -- PROGRAM ARGUMENT...",
		Short: "Replace this process by a program, for which a text is written to a file; {} in its arguments is the file's path",
		Args:  arguments(1, -1, "a program and its arguments"),
		RunE:  func(_ *cobra.Command, args []string) error { return agent.Configured(config, args[0], args[1:]) },
	}
	cmd.Flags().StringVar(&config, "config", "", "what the file holds")
	return cmd
}

func newScratchCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "scratch",
		Short: "Make a directory, print its path, and remove it when interrupted",
		Args:  noArguments,
		RunE:  func(cmd *cobra.Command, _ []string) error { return agent.Scratch(cmd.Context(), cmd.OutOrStdout()) },
	}
}
