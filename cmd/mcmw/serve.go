package main

import (
	"context"
	"log/slog"
	"math"
	"os"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"mcmw/internal/admin"
	"mcmw/internal/config"
	"mcmw/internal/middleware"
	"mcmw/internal/stats"
)

func newServeCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "serve [flags] [-m server server...]",
		Short: "Serve memcached clients",
		Long: "Serve memcached clients until SIGTERM or SIGINT, then finish what is in flight and exit. A second signal exits at once.\n\n" +
			"Every flag can also be an environment variable (--max-value: MCMW_MAX_VALUE) or a line of the file --config\n" +
			"(max-value: 1m). Flags override the environment, which overrides the file. `mcmw config print --show-origin` shows\n" +
			"what holds and why.",
		Example: "  mcmw serve --servers cache1:11211,cache2:11211 --replicas 1\n" +
			"  mcmw serve -l 127.0.0.1 -p 11311 -t 64 -s true -m 127.0.0.1:11211 127.0.0.1:11212\n" +
			"  mcmw serve --config mcmw.yaml",
	}
	flags := addOptions(command)
	command.RunE = func(cmd *cobra.Command, args []string) error {
		flags.SetArguments(args)
		c, err := config.Load(config.Sources{Flags: flags, Env: os.Environ()})
		if err != nil {
			return err
		}
		return serve(cmd.Context(), c, newLogger(cmd.ErrOrStderr(), c))
	}
	return command
}

// procs returns how many processors to use: what was asked for; else what GOMAXPROCS says; else half of those available.
// Nearly all of a request's time is in the kernel, and a scheduler with more processors than work spends its time on
// waking them: on a machine shared with servers and clients, half of the processors serve as many requests with less.
func procs(asked, available int, inEnvironment bool) int {
	switch {
	case asked > 0:
		return asked
	case inEnvironment:
		return available
	}
	return (available + 1) / 2
}

// serve runs the middleware until ctx is done and it has drained. The admin server starts first and ends last: it tells
// why clients are not served yet, and that they are not any more.
func serve(ctx context.Context, c *config.Config, log *slog.Logger) error {
	for _, warning := range c.Warnings {
		log.Warn(warning)
	}
	runtime.GOMAXPROCS(procs(c.Procs, runtime.GOMAXPROCS(0), os.Getenv("GOMAXPROCS") != ""))
	options := c.Middleware()
	options.Version, options.Log = version, log
	m, err := middleware.New(options)
	if err != nil {
		return err
	}
	if c.Admin != "" {
		stopAdmin, err := startAdmin(c.Admin, m, log)
		if err != nil {
			return err
		}
		defer stopAdmin()
	}
	if err := m.Listen(); err != nil {
		return err
	}

	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-m.Ready():
			logReady(c, m, log)
		case <-ended:
		}
	}()
	err = m.Run(ctx)
	logEnd(m.Stats().Snapshot(), log)
	return err
}

// startAdmin starts the admin server of m on addr. The function it returns stops it and waits for its end.
func startAdmin(addr string, m *middleware.Middleware, log *slog.Logger) (stop func(), err error) {
	server := admin.New(admin.Options{Addr: addr, Registry: m.Stats(), Ready: m.IsReady, Version: version, Log: log})
	if err := server.Listen(); err != nil {
		return nil, err
	}
	log.Info("admin server listens", "address", server.Addr().String())
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Serve(ctx); err != nil {
			log.Error("the admin server has ended; clients are served on", "error", err)
		}
	}()
	return func() {
		cancel()
		<-done
	}, nil
}

// logReady says what is served from where, once all servers have been reached.
func logReady(c *config.Config, m *middleware.Middleware, log *slog.Logger) {
	var listen, servers []string
	for _, a := range m.Addrs() {
		listen = append(listen, a.String())
	}
	for _, s := range c.Servers {
		servers = append(servers, s.Name)
	}
	replicas := c.Replicas
	if replicas == 0 {
		replicas = len(c.Servers)
	}
	log.Info("ready", "listen", listen, "servers", servers, "workers", m.Stats().Snapshot().Workers, "depth", c.Depth,
		"replicas", replicas, "sharded", c.Sharded, "version", version)
}

// logEnd writes the last statistics.
func logEnd(s *stats.Snapshot, log *slog.Logger) {
	all := s.All()
	log.Info("stopped", "requests", s.Total(), "connections", s.Opened, "keys", s.Keys, "misses", s.Misses,
		"mean_us", microseconds(all.Mean()), "p99_us", microseconds(all.Quantile(0.99)),
		"uptime_s", int64(time.Duration(s.Uptime).Seconds()))
}

// microseconds returns ns nanoseconds in whole microseconds.
func microseconds(ns float64) int64 { return int64(math.Round(ns / 1e3)) }
