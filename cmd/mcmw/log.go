package main

import (
	"io"
	"log/slog"

	"mcmw/internal/config"
	"mcmw/internal/terminal"
)

// newLogger returns the log as configured by c, written to w, and its level, which may be changed.
func newLogger(w io.Writer, c *config.Config) (*slog.Logger, *slog.LevelVar) {
	level := new(slog.LevelVar)
	level.Set(c.LogLevel)
	options := &slog.HandlerOptions{Level: level}
	if c.LogFormat == config.LogText || c.LogFormat != config.LogJSON && terminal.Is(w) {
		return slog.New(slog.NewTextHandler(w, options)), level
	}
	return slog.New(slog.NewJSONHandler(w, options)), level
}
