package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"

	"mcmw/internal/config"
	"mcmw/internal/statlog"
	"mcmw/internal/stats"
)

// newTap returns the tap of the request log, nil if c configures none.
func newTap(c *config.Config) *stats.Tap {
	if c.Sample == 0 && c.Slow == 0 {
		return nil
	}
	return stats.NewTap(c.Sample, c.Slow, c.LogKeys)
}

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
