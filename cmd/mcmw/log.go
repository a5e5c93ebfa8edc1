package main

import (
	"io"
	"log/slog"

	"mcmw/internal/config"
	"mcmw/internal/terminal"
)

// newLogger returns the log as configured by c, written to w, and its level, which may be changed.
func newLogger(w io.Writer, c *config.Config) (*slog.Logger, *slog.LevelVar) {
	format := c.LogFormat
	if format != config.LogText && format != config.LogJSON {
		format = config.LogJSON
		if terminal.Is(w) {
			format = config.LogText
		}
	}
	level := new(slog.LevelVar)
	level.Set(c.LogLevel)
	options := &slog.HandlerOptions{Level: level}
	if format == config.LogJSON {
		return slog.New(slog.NewJSONHandler(w, options)), level
	}
	return slog.New(slog.NewTextHandler(w, options)), level
}
