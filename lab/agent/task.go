package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"mcmw/lab/process"
)

// Task is something that a testbed asks of a host: one of the fields. The host carries it out as `mcmwlab agent TASK`.
// Results are JSON on standard output.
type Task struct {
	Describe   bool        `json:"describe,omitempty"`    // the host
	Sample     *Watched    `json:"sample,omitempty"`      // until interrupted
	Path       *Measured   `json:"path,omitempty"`        // to a path server
	PathServer string      `json:"path_server,omitempty"` // host:port; answers measurements until interrupted
	Profile    *Profiled   `json:"profile,omitempty"`     // of a middleware
	Delay      *Relay      `json:"delay,omitempty"`       // the replies of a server, until interrupted
	Await      []string    `json:"await,omitempty"`       // host:port of servers or middlewares: until all answer
	Pin        *Pinned     `json:"pin,omitempty"`         // a server to processors
	Scratch    bool        `json:"scratch,omitempty"`     // a directory; prints its path, removes it when interrupted
	Configured *Configured `json:"configured,omitempty"`  // a program, which this process becomes
}

// Measured is a path to measure: to a path server at host:port, each direction's bandwidth for the time Bulk.
type Measured struct {
	To   string        `json:"to"`
	Bulk time.Duration `json:"bulk"`
}

// Profiled is a middleware whose processor time is profiled: its admin address, the time to wait before, and how long,
// which is rounded to seconds.
type Profiled struct {
	Address    string
	After, For time.Duration
}

// Relay listens at host:port and forwards connections to a server, whose replies it delays.
type Relay struct {
	Listen, To string
	Delay      time.Duration
}

// Args returns the arguments with which mcmwlab carries out the task.
func (t Task) Args() []string {
	text, err := json.Marshal(t)
	if err != nil {
		panic(err) // impossible: a task has only texts and numbers
	}
	return []string{"agent", string(text)}
}

// Run carries out a task in JSON.
func Run(ctx context.Context, text string, w io.Writer) error {
	var t Task
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&t); err != nil {
		return fmt.Errorf("%.80q: expected a task of this version of mcmwlab: %w", text, err)
	}
	switch {
	case t.Describe:
		return json.NewEncoder(w).Encode(Describe())
	case t.Sample != nil:
		return Sample(ctx, w, *t.Sample)
	case t.Path != nil:
		if err := Await(ctx, "tcp", t.Path.To); err != nil {
			return err
		}
		p, err := MeasurePath(ctx, t.Path.To, t.Path.Bulk)
		if err != nil {
			return err
		}
		return json.NewEncoder(w).Encode(p)
	case t.PathServer != "":
		listener, err := net.Listen("tcp", t.PathServer)
		if err != nil {
			return err
		}
		return ServePath(ctx, listener)
	case t.Profile != nil:
		return t.Profile.write(ctx, w)
	case t.Delay != nil:
		listener, err := net.Listen("tcp", t.Delay.Listen)
		if err != nil {
			return err
		}
		return ServeDelay(ctx, listener, t.Delay.To, t.Delay.Delay)
	case t.Pin != nil:
		return t.Pin.pin()
	case t.Scratch:
		return Scratch(ctx, w)
	case t.Configured != nil:
		return t.Configured.become()
	}
	for _, address := range t.Await {
		if err := Await(ctx, "memcached", address); err != nil {
			return err
		}
	}
	return nil
}

// awaitPause is the time between two attempts.
const awaitPause = 5 * time.Millisecond

// Await waits until a server at address accepts connections (protocol "tcp") or answers a request ("memcached"), at
// most for process.ReadyTimeout. If the time or ctx ends first, the error is that of the last attempt.
func Await(ctx context.Context, protocol, address string) error {
	ctx, cancel := context.WithTimeout(ctx, process.ReadyTimeout)
	defer cancel()
	for {
		err := try(ctx, protocol, address)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s doesn't answer: %w", address, err)
		case <-time.After(awaitPause):
		}
	}
}

func try(ctx context.Context, protocol, address string) error {
	if protocol == "memcached" {
		return process.Answers(address)
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return conn.Close()
}
