package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"mcmw/internal/admin"
	"mcmw/internal/config"
	"mcmw/internal/control"
	"mcmw/internal/discover"
	"mcmw/internal/hotkeys"
	"mcmw/internal/middleware"
	"mcmw/internal/statlog"
	"mcmw/internal/stats"
)

func newServeCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "serve [flags] [-m server server...]",
		Short: "Serve memcached clients",
		Long: "Serve memcached clients until SIGTERM or SIGINT, then finish the requests in flight and exit. A " +
			"second signal exits at once.\n" +
			"On SIGHUP, or when the configuration file changes, the configuration is reloaded without dropping " +
			"clients.\n\n" +
			"Every flag can also be set by an environment variable (MCMW_MAX_VALUE for --max-value) or in the file " +
			"named by --config\n" +
			"(max-value: 1m). Flags override the environment, which overrides the file. `mcmw config print " +
			"--show-origin` shows all\n" +
			"values and where they come from.",
		Example: "  mcmw serve --servers cache1:11211,cache2:11211 --replicas 1\n" +
			"  mcmw serve -l 127.0.0.1 -p 11311 -t 64 -s true -m 127.0.0.1:11211 127.0.0.1:11212\n" +
			"  mcmw serve --config mcmw.yaml",
	}
	flags := addOptions(command)
	command.RunE = func(cmd *cobra.Command, args []string) error {
		flags.SetArguments(args)
		load := func(text []byte) (*config.Config, error) {
			return config.Load(config.Sources{Flags: flags, Env: os.Environ(), Text: text})
		}
		hangup := make(chan os.Signal, 1)
		signal.Notify(hangup, syscall.SIGHUP)
		defer signal.Stop(hangup)
		signal.Ignore(syscall.SIGPIPE) // clients are served on when nobody reads the log any more
		defer signal.Reset(syscall.SIGPIPE)
		k, err := control.New(control.Options{
			Load: load, Hangup: hangup, InForce: middleware.InForce, Version: build.Version,
			NewLog: func(c *config.Config) (*slog.Logger, *slog.LevelVar) { return newLogger(cmd.ErrOrStderr(), c) },
		})
		if err != nil {
			return err
		}
		return serve(cmd.Context(), k)
	}
	return command
}

// procs returns the number of processors to use: as configured, else GOMAXPROCS, else half of those available. Nearly
// all of a request's time is in the kernel, and a scheduler with more processors than work spends its time waking them
// up: on a machine shared with servers and clients, half of the processors serve as many requests with less work.
func procs(asked, available int, inEnvironment bool) int {
	switch {
	case asked > 0:
		return asked
	case inEnvironment:
		return available
	}
	return (available + 1) / 2
}

// serve runs the middleware with k's configuration until ctx is done and the middleware has drained. The admin server
// starts first and ends last: it reports why clients are not served yet, or no longer.
func serve(ctx context.Context, k *control.Control) error {
	for _, warning := range k.Config().Warnings {
		k.Log.Warn(warning)
	}
	runtime.GOMAXPROCS(procs(k.Config().Procs, runtime.GOMAXPROCS(0), os.Getenv("GOMAXPROCS") != ""))
	show, stopAdmin, err := startAdmin(k)
	if err != nil {
		return err
	}
	defer stopAdmin()
	if !k.AwaitServers(ctx) {
		return nil
	}
	options := k.Middleware()
	if c := k.Config(); c.Sample > 0 || c.Slow > 0 {
		options.Tap = stats.NewTap(c.Sample, c.Slow, c.LogKeys)
	}
	m, err := middleware.New(options)
	if err != nil {
		return err
	}
	show(m)
	stopLogs, err := startLogs(k.Config(), m.Stats(), options.Tap, k.Log)
	if err != nil {
		return err
	}
	defer stopLogs()
	if err := m.Listen(); err != nil {
		return err
	}

	controlling, stopControl := context.WithCancel(ctx)
	var controller sync.WaitGroup
	defer controller.Wait()
	defer stopControl()
	controller.Go(func() { middleware.GiveBackMemory(controlling) })
	gates := discover.Gates{Cluster: discover.PodCluster(), Log: k.Log}
	controller.Go(func() { gates.Keep(controlling, m.Refilled) })
	controller.Go(func() { k.Run(controlling, m, func() { logReady(k, m) }) })
	err = m.Run(ctx)
	logEnd(m.Stats().Snapshot(), k.Log)
	return err
}

// startAdmin starts the admin server, if there is to be one. It reports that no servers have been found until show is
// called. stop stops it and waits for its end.
func startAdmin(k *control.Control) (show func(m *middleware.Middleware), stop func(), err error) {
	if k.Config().Admin == "" {
		return func(*middleware.Middleware) {}, func() {}, nil
	}
	s, err := admin.Listen(k.Config().Admin, "the names of the memcached servers have not been found yet", k.Log)
	if err != nil {
		return nil, nil, err
	}
	k.Log.Info("admin server listens", "address", s.Addr().String())
	return func(m *middleware.Middleware) {
		s.Show(admin.Options{
			Registry: m.Stats(), Control: k.Counts, Memcached: m.AskServers, Ready: m.IsReady, Version: build.Version,
			Check:   k.Check,
			HotKeys: func(n int) hotkeys.Report { return m.HotKeys(n, k.Config().LogKeys) },
		})
	}, s.Close, nil
}

// logReady logs that clients are served, with the addresses and servers.
func logReady(k *control.Control, m *middleware.Middleware) {
	var listen, servers []string
	for _, a := range m.Addrs() {
		listen = append(listen, a.String())
	}
	o := k.Middleware()
	pools := slices.Clone(o.Pools)
	for _, s := range o.Shadows {
		pools = append(pools, s.To)
	}
	for _, p := range pools {
		for _, s := range p.Servers {
			servers = append(servers, strings.TrimPrefix(p.Name+"/"+s.Name, "/"))
		}
	}
	placed := slog.Int("replicas", cmp.Or(o.Placement.Replicas, len(servers)))
	if pools[0].Name != "" {
		placed = slog.Int("pools", len(pools)) // each has a number of replicas of its own
	}
	k.Log.Info("ready", "listen", listen, "servers", servers, "workers", m.Stats().Snapshot().Workers, "depth", o.Depth,
		placed, "sharded", o.Sharded, "version", build.Version)
}

// logEnd logs the final statistics.
func logEnd(s *stats.Snapshot, log *slog.Logger) {
	all := s.All()
	log.Info("stopped", "requests", s.Total(), "connections", s.Opened, "keys", s.Keys, "misses", s.Misses,
		"mean_us", microseconds(all.Mean()), "p99_us", microseconds(all.Quantile(0.99)),
		"uptime_s", int64(time.Duration(s.Uptime).Seconds()))
}

// microseconds returns ns nanoseconds in whole microseconds.
func microseconds(ns float64) int64 { return int64(math.Round(ns / 1e3)) }

// startLogs starts the statistics log and the request log that c configures. stop writes what is pending and ends them.
// tap is nil if there is no request log.
func startLogs(c *config.Config, r *stats.Registry, tap *stats.Tap, log *slog.Logger) (stop func(), err error) {
	ctx, cancel := context.WithCancel(context.Background())
	var files []*os.File
	var writers sync.WaitGroup
	end := func() {
		cancel()
		writers.Wait()
		for _, f := range files {
			if err := f.Close(); err != nil {
				log.Error("cannot close a log file", "file", f.Name(), "error", err)
			}
		}
	}
	defer func() {
		if err != nil {
			end()
		}
	}()
	open := func(what, path string) (*os.File, error) {
		// With --log-keys the file has keys, which other users of the machine must not read.
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o640)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
		files = append(files, f)
		return f, nil
	}
	start := func(what string, run func(context.Context) error) {
		writers.Go(func() {
			if err := run(ctx); err != nil {
				log.Error("the "+what+" has ended; clients are still served", "error", err)
			}
		})
	}
	if c.StatsFile != "" {
		f, err := open("statistics log", c.StatsFile)
		if err != nil {
			return nil, err
		}
		windows, err := statlog.NewWindows(f, r, c.StatsWindow, build.Version)
		if err != nil {
			return nil, fmt.Errorf("statistics log: %w", err)
		}
		start("statistics log", windows.Run)
	}
	switch {
	case tap == nil:
	case c.RequestLog != "":
		f, err := open("request log", c.RequestLog)
		if err != nil {
			return nil, err
		}
		start("request log", func(ctx context.Context) error { return statlog.WriteRequests(ctx, tap, f) })
	default:
		start("request log", func(ctx context.Context) error { return statlog.LogRequests(ctx, tap, log) })
	}
	return end, nil
}
