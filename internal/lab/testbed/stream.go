package testbed

import (
	"bytes"
	"context"
	"encoding/json"
	"sync"
	"time"
)

// Log takes the statistics log of a middleware as it is written and keeps the lines of the current run.
type Log struct {
	mu      sync.Mutex    // guards the fields below
	lines   []byte        // whole lines
	partial []byte        // the beginning of the next
	until   time.Time     // the end of the latest window
	changed chan struct{} // closed when until changes
}

// NewLog returns a log that nothing was written to.
func NewLog() *Log { return &Log{changed: make(chan struct{})} }

// Write takes a part of the log.
func (s *Log) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.partial = append(s.partial, p...)
	for {
		end := bytes.IndexByte(s.partial, '\n')
		if end < 0 {
			return len(p), nil
		}
		s.take(s.partial[:end+1])
		s.partial = s.partial[end+1:]
	}
}

// take keeps a line. mu is held.
func (s *Log) take(line []byte) {
	s.lines = append(s.lines, line...)
	var window struct {
		Until int64 `json:"until"`
	}
	if json.Unmarshal(line, &window) == nil && window.Until > 0 {
		s.until = time.UnixMilli(window.Until)
		close(s.changed)
		s.changed = make(chan struct{})
	}
}

// restart forgets the lines so far.
func (s *Log) restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = nil
}

// text returns the lines since the last restart.
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
