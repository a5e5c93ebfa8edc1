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

	"mcmw/lab/agent"
	"mcmw/lab/process"
	"mcmw/lab/testbed"
	"mcmw/lab/testbed/remote"
)

// newAgentCommand returns the command that testbeds call on their hosts.
func newAgentCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Helper commands for the hosts of a testbed",
		Long:  `Helper commands that "mcmwlab run" calls on the hosts of a testbed. Results are JSON on standard output.`,
		Args:  noArguments,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newSampleCommand(), newPathServerCommand(), newPathCommand(), newDelayCommand(),
		newDescribeCommand(), newAwaitCommand(), newServeCommand(), newPinCommand(), newScratchCommand(),
		newConfiguredCommand())
	return cmd
}

// plumbing returns a command that is only called by other programs.
func plumbing(use, short string, args cobra.PositionalArgs, run func(*cobra.Command, []string) error) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Args: args, RunE: run}
}

func newSampleCommand() *cobra.Command {
	var processes []string
	var watched agent.Watched
	interval := time.Second
	cmd := plumbing("sample", "Print the counters of this host and of processes once a second, until interrupted",
		noArguments, func(cmd *cobra.Command, _ []string) error {
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
					return usageError{fmt.Errorf("--process %q: expected NAME=ID with the id of a process, or "+
						"NAME=http://... with the URL of its metrics", text)}
				}
			}
			if interval < time.Millisecond {
				return usageError{fmt.Errorf("--interval %v: expected at least 1ms", interval)}
			}
			if len(watched.Group) > 0 && watched.CPUs <= 0 {
				return usageError{fmt.Errorf("--group-cpus %g: expected more than 0, the number of processors that "+
					"the group can use", watched.CPUs)}
			}
			watched.Processes = usages
			return agent.Sample(cmd.Context(), cmd.OutOrStdout(), watched, interval)
		})
	cmd.Flags().StringArrayVar(&processes, "process", nil,
		"process to watch: NAME=ID, or NAME=http://... with the URL of its metrics; repeatable")
	cmd.Flags().StringArrayVar(&watched.Group, "group", nil,
		"directory of a control group to sample instead of the host; repeatable, one for each hierarchy")
	cmd.Flags().Float64Var(&watched.CPUs, "group-cpus", 0, "number of processors that the group can use")
	cmd.Flags().Var((*seconds)(&interval), "interval", "time between samples: seconds, or a duration")
	return cmd
}

func newPathServerCommand() *cobra.Command {
	var address string
	cmd := plumbing("path-server", "Answer measurements of the path to this host, until interrupted", noArguments,
		func(cmd *cobra.Command, _ []string) error {
			listener, err := (&net.ListenConfig{}).Listen(cmd.Context(), "tcp", address)
			if err != nil {
				return err
			}
			return agent.ServePath(cmd.Context(), listener)
		})
	cmd.Flags().StringVar(&address, "listen", "127.0.0.1:0", "host:port to listen on")
	return cmd
}

func newPathCommand() *cobra.Command {
	var to string
	bulk := 500 * time.Millisecond
	cmd := plumbing("path", "Measure round-trip time and bandwidth to a path-server", noArguments,
		func(cmd *cobra.Command, _ []string) error {
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
		})
	cmd.Flags().StringVar(&to, "to", "", "host:port of the path-server")
	cmd.Flags().Var((*seconds)(&bulk), "bulk", bulkHelp)
	return cmd
}

// bulkHelp is the help of the flag --bulk.
const bulkHelp = "time to measure the bandwidth of each direction: seconds, or a duration"

func newDelayCommand() *cobra.Command {
	var address, to string
	var delay time.Duration
	cmd := plumbing("delay", "Forward connections to a server and delay its replies, until interrupted", noArguments,
		func(cmd *cobra.Command, _ []string) error {
			if _, _, err := net.SplitHostPort(to); err != nil {
				return usageError{fmt.Errorf("--to %q: expected the host:port of a server", to)}
			}
			listener, err := (&net.ListenConfig{}).Listen(cmd.Context(), "tcp", address)
			if err != nil {
				return err
			}
			return agent.ServeDelay(cmd.Context(), listener, to, delay)
		})
	cmd.Flags().StringVar(&address, "listen", "127.0.0.1:0", "host:port to listen on")
	cmd.Flags().StringVar(&to, "to", "", "host:port of the server")
	cmd.Flags().Var((*seconds)(&delay), "for", "delay of each reply: seconds, or a duration")
	return cmd
}

func newDescribeCommand() *cobra.Command {
	return plumbing("describe", "Describe this host", noArguments, func(cmd *cobra.Command, _ []string) error {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(agent.Describe())
	})
}

func newServeCommand() *cobra.Command {
	return plumbing("serve",
		"Start and stop programs as instructed on standard input; stop all of them when the input ends", noArguments,
		func(cmd *cobra.Command, _ []string) error {
			return remote.Serve(cmd.Context(), os.Stdin, cmd.OutOrStdout(), testbed.Here().Start, build.Version)
		})
}

func newAwaitCommand() *cobra.Command {
	patience := process.ReadyTimeout
	cmd := plumbing("await HOST:PORT...", "Wait until servers or middlewares answer a request",
		arguments(1, -1, "addresses"), func(cmd *cobra.Command, addresses []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), patience)
			defer cancel()
			for _, address := range addresses {
				if err := agent.Await(ctx, "memcached", address); err != nil {
					return err
				}
			}
			return nil
		})
	cmd.Flags().Var((*seconds)(&patience), "for", "time to wait: seconds, or a duration")
	return cmd
}

func newPinCommand() *cobra.Command {
	var pid, first, threads int
	cmd := plumbing("pin", "Pin a server, or each of its threads that serve requests, to a processor", noArguments,
		func(*cobra.Command, []string) error {
			if pid < 1 || first < 0 || threads < 0 {
				return usageError{fmt.Errorf("--process %d --first %d --threads %d: expected the id of a process, "+
					"and numbers from 0", pid, first, threads)}
			}
			return agent.Pin(pid, first, threads)
		})
	cmd.Flags().IntVar(&pid, "process", 0, "id of the process")
	cmd.Flags().IntVar(&first, "first", 0, "index of the first processor in those that this process can use")
	cmd.Flags().IntVar(&threads, "threads", 0,
		"number of threads that serve requests and get a processor each; 0: all threads share one processor")
	return cmd
}

func newConfiguredCommand() *cobra.Command {
	var config string
	cmd := plumbing("configured --config TEXT -- PROGRAM ARGUMENT...",
		"Write a text to a file and replace this process by a program; {} in its arguments is the path of the file",
		arguments(1, -1, "a program and its arguments"), func(_ *cobra.Command, args []string) error {
			return agent.Configured(config, args[0], args[1:])
		})
	cmd.Flags().StringVar(&config, "config", "", "content of the file")
	return cmd
}

func newScratchCommand() *cobra.Command {
	return plumbing("scratch", "Create a directory, print its path, and remove it when interrupted", noArguments,
		func(cmd *cobra.Command, _ []string) error {
			return agent.Scratch(cmd.Context(), cmd.OutOrStdout())
		})
}
