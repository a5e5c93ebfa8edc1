package testbed

import (
	"bytes"
	"context"
	"encoding/json"
	"sync"
	"time"

	"mcmw/lab/process"
)

// Log reads the statistics log of a middleware while it is written and keeps the lines of the current run.
type Log struct {
	input process.Lines // used by the writer alone

	mu      sync.Mutex    // guards the fields below
	first   []byte        // the line with which the middleware begins its log
	lines   []byte        // whole lines
	until   time.Time     // the end of the latest window
	changed chan struct{} // closed when until changes
}

// NewLog returns an empty log.
func NewLog() *Log {
	l := &Log{changed: make(chan struct{})}
	l.input.Take = l.take
	return l
}

// Write takes a part of the log. It must not be called concurrently.
func (s *Log) Write(p []byte) (int, error) { return s.input.Write(p) }

// take keeps a line.
func (s *Log) take(line []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, line...)
	if s.first == nil {
		s.first = bytes.Clone(line)
	}
	var window struct {
		Until int64 `json:"until"`
	}
	if json.Unmarshal(line, &window) == nil && window.Until > 0 {
		s.until = time.UnixMilli(window.Until)
		close(s.changed)
		s.changed = make(chan struct{})
	}
	return nil
}

// restart forgets the lines that it has, but the first.
func (s *Log) restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = bytes.Clone(s.first)
}

// text returns the first line, and the lines since the last restart.
func (s *Log) text() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return bytes.Clone(s.lines)
}

// await returns when there is a window that ends at that time or later, or when ctx ends.
func (s *Log) await(ctx context.Context, at time.Time) {
	for {
		s.mu.Lock()
		there, changed := !s.until.Before(at), s.changed
		s.mu.Unlock()
		if there {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}
