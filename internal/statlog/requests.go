package statlog

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"log/slog"

	"mcmw/internal/stats"
)

// request is a line of the request log. The times after Created are in ns since Created.
type request struct {
	Type     string `json:"type"`    // "request"
	Why      string `json:"why"`     // "sample" or "slow"
	Created  int64  `json:"created"` // us since 1970
	Enqueued int64  `json:"enqueued"`
	Dequeued int64  `json:"dequeued"`
	Sent     int64  `json:"sent"`
	Received int64  `json:"received"`
	Replied  int64  `json:"replied"` // the response time
	Command  string `json:"command"`
	Class    string `json:"class"`
	Result   string `json:"result"`
	Keys     int    `json:"keys"`
	Hits     int    `json:"hits"`
	Bytes    int    `json:"bytes"` // of the request
	Worker   int    `json:"worker"`
	Calls    int    `json:"calls"`            // requests to servers that it needed
	Server   string `json:"server,omitempty"` // the server of the first of them
	Key      string `json:"key,omitempty"`    // the first key, if keys are logged
}

func requestOf(t *stats.Tap, e *stats.Event) *request {
	why := "sample"
	if t.Slow(e) {
		why = "slow"
	}
	return &request{
		Type: "request", Why: why, Created: stats.Wall(e.Created).UnixMicro(),
		Enqueued: e.Enqueued - e.Created, Dequeued: e.Dequeued - e.Created, Sent: e.Sent - e.Created,
		Received: e.Received - e.Created, Replied: e.Response(),
		Command: e.Command.String(), Class: e.Class.String(), Result: e.Result.String(), Keys: e.Keys, Hits: e.Hits,
		Bytes:  e.Bytes,
		Worker: e.Worker, Calls: e.Calls, Server: e.Server, Key: e.Key(),
	}
}

// WriteRequests writes the requests from t as lines to out until ctx is done, and then those that are still waiting. It
// returns early if a line cannot be written.
func WriteRequests(ctx context.Context, t *stats.Tap, out io.Writer) error {
	buffer := bufio.NewWriter(out)
	encoder := json.NewEncoder(buffer)
	return eachRequest(ctx, t, func(e *stats.Event) error { return encoder.Encode(requestOf(t, e)) }, buffer.Flush)
}

// LogRequests is WriteRequests to the log of the process.
func LogRequests(ctx context.Context, t *stats.Tap, log *slog.Logger) error {
	write := func(e *stats.Event) error {
		r := requestOf(t, e)
		attributes := []any{
			"why", r.Why, "command", r.Command, "result", r.Result, "response_us", r.Replied / 1e3, "server", r.Server,
			"keys", r.Keys, "hits", r.Hits,
			"worker", r.Worker,
		}
		for s := range stats.NumStages {
			attributes = append(attributes, s.String()+"_us", e.Of(s)/1e3)
		}
		if r.Key != "" {
			attributes = append(attributes, "key", r.Key)
		}
		log.Info("request", attributes...)
		return nil
	}
	return eachRequest(ctx, t, write, func() error { return nil })
}

// eachRequest calls write for each request, and flush whenever no more are waiting.
func eachRequest(ctx context.Context, t *stats.Tap, write func(*stats.Event) error, flush func() error) error {
	for ended := false; ; {
		for range len(t.Events()) {
			e := <-t.Events()
			if err := write(&e); err != nil {
				return err
			}
		}
		if err := flush(); err != nil || ended {
			return err
		}
		select {
		case e := <-t.Events():
			if err := write(&e); err != nil {
				return err
			}
		case <-ctx.Done():
			ended = true
		}
	}
}
