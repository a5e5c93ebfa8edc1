package main

import (
	"io"
	"log/slog"
	"os"

	"golang.org/x/term"

	"mcmw/internal/config"
)

// newLogger returns the log as configured by c, written to w, and its level, which may be changed.
func newLogger(w io.Writer, c *config.Config) (*slog.Logger, *slog.LevelVar) {
	format := c.LogFormat
	if format != config.LogText && format != config.LogJSON {
		format = config.LogJSON
		if isTerminal(w) {
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

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
