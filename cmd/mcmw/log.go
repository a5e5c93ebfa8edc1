package main

import (
	"io"
	"log/slog"
	"os"

	"golang.org/x/term"

	"mcmw/internal/config"
)

// newLogger returns the log that c asks for, written to w.
func newLogger(w io.Writer, c *config.Config) *slog.Logger {
	format := c.LogFormat
	if format != config.LogText && format != config.LogJSON {
		format = config.LogJSON
		if isTerminal(w) {
			format = config.LogText
		}
	}
	options := &slog.HandlerOptions{Level: c.LogLevel}
	if format == config.LogJSON {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
