package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"mcmw/test/history"
)

// event is a change of a server's state, as logged by the middleware.
type event struct {
	at time.Time // when the log line was read
	up bool      // the server has come up; otherwise it has left that state
}

// events reads the middleware's log, JSON lines, and keeps the changes of servers' states.
type events struct {
	mu   sync.Mutex
	list []event // guarded by mu
}

// take reads a line of the log.
func (e *events) take(line []byte) error {
	var entry struct{ Msg string }
	if json.Unmarshal(line, &entry) != nil {
		return nil // not a line of the log
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	switch entry.Msg {
	case "a server is up":
		e.list = append(e.list, event{time.Now(), true})
	case "a server is stale", "a server is down":
		e.list = append(e.list, event{time.Now(), false})
	}
	return nil
}

// times returns when servers came up, or left that state, after from.
func (e *events) times(up bool, from time.Time) (at []time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, v := range e.list {
		if v.up == up && v.at.After(from) {
			at = append(at, v.at)
		}
	}
	return at
}

// admin is a middleware's admin server.
type admin struct{ addr string }

// httpClient keeps no idle connections: they would count among the middleware's goroutines.
var httpClient = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: history.AnswerWithin}

// get passes the body of a page to read.
func (a admin) get(ctx context.Context, path string, read func(io.Reader) error) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+a.addr+path, nil)
	if err != nil {
		return err
	}
	response, err := httpClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("admin server: %s: %s", path, response.Status)
	}
	return read(response.Body)
}

// metrics returns the value of every metric by its name and labels, as /metrics writes them.
func (a admin) metrics(ctx context.Context) (map[string]float64, error) {
	values := make(map[string]float64)
	err := a.get(ctx, "/metrics", func(body io.Reader) error {
		lines := bufio.NewScanner(body)
		for lines.Scan() {
			at := strings.LastIndexByte(lines.Text(), ' ')
			if at < 0 || strings.HasPrefix(lines.Text(), "#") {
				continue
			}
			value, err := strconv.ParseFloat(lines.Text()[at+1:], 64)
			if err != nil {
				return fmt.Errorf("metrics: %q: %w", lines.Text(), err)
			}
			values[lines.Text()[:at]] = value
		}
		return lines.Err()
	})
	return values, err
}

// Footprint is the middleware's resource usage without clients.
type Footprint struct {
	Goroutines int   `json:"goroutines"`
	Heap       int64 `json:"heap_bytes"`     // after a garbage collection
	Resident   int64 `json:"resident_bytes"` // of the process

	entries map[string]int // goroutines by the first function of mcmw that they called
}

// footprint collects garbage and measures.
func (a admin) footprint(ctx context.Context) (Footprint, error) {
	err := a.get(ctx, "/debug/pprof/heap?gc=1", func(body io.Reader) error {
		_, err := io.Copy(io.Discard, body)
		return err
	})
	if err != nil {
		return Footprint{}, err
	}
	m, err := a.metrics(ctx)
	if err != nil {
		return Footprint{}, err
	}
	f := Footprint{
		Goroutines: int(m["go_goroutines"]), Heap: int64(m["go_memstats_heap_alloc_bytes"]),
		Resident: int64(m["process_resident_memory_bytes"]),
	}
	err = a.get(ctx, "/debug/pprof/goroutine?debug=1", func(body io.Reader) error {
		f.entries, err = entriesOf(body)
		return err
	})
	return f, err
}

// entriesOf reads a goroutine profile with debug=1: for each stack the number of its goroutines before an @, then lines
// with an address, a function+offset and a position, innermost first. It returns the goroutines by the first function
// of mcmw that they called; those that called none are left out.
func entriesOf(profile io.Reader) (map[string]int, error) {
	entries := make(map[string]int)
	count, entry := 0, ""
	lines := bufio.NewScanner(profile)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		switch {
		case len(words) == 0:
			if entry != "" {
				entries[entry] += count
			}
			count, entry = 0, ""
		case len(words) > 1 && words[1] == "@":
			count, _ = strconv.Atoi(words[0])
		case len(words) > 2 && (strings.HasPrefix(words[2], "mcmw/") || strings.HasPrefix(words[2], "main.")):
			entry, _, _ = strings.Cut(words[2], "+")
		}
	}
	return entries, lines.Err()
}

// grownSince returns which entries f has more often than before, as text.
func (f Footprint) grownSince(before Footprint) string {
	var grown []string
	for _, entry := range slices.Sorted(maps.Keys(f.entries)) {
		if more := f.entries[entry] - before.entries[entry]; more > 0 {
			grown = append(grown, fmt.Sprintf("%d of %s", more, entry))
		}
	}
	if grown == nil {
		return "none with a function of mcmw"
	}
	return strings.Join(grown, ", ")
}

// settled measures until at most most goroutines run, or history.AnswerWithin has passed, and returns the last
// measurement.
func (a admin) settled(ctx context.Context, most int) (f Footprint, err error) {
	err = poll(ctx, func() (done bool, err error) {
		f, err = a.footprint(ctx)
		return f.Goroutines <= most, err
	})
	return f, err
}

// idle waits until the middleware has no clients, and measures.
func (a admin) idle(ctx context.Context) (Footprint, error) {
	err := poll(ctx, func() (done bool, err error) {
		m, err := a.metrics(ctx)
		return m["mcmw_connections"] == 0, err
	})
	if err != nil {
		return Footprint{}, err
	}
	return a.footprint(ctx)
}

// poll calls check until it is done, it fails, ctx ends, or history.AnswerWithin has passed, which is no error.
func poll(ctx context.Context, check func() (done bool, err error)) error {
	return pollFor(ctx, history.AnswerWithin, check)
}

// pollFor is poll for another time.
func pollFor(ctx context.Context, within time.Duration, check func() (done bool, err error)) error {
	for deadline := time.Now().Add(within); ; {
		if done, err := check(); done || err != nil || time.Now().After(deadline) {
			return err
		}
		if err := sleep(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}
