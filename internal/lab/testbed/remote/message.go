package remote

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"sync"
)

const (
	// protocol is the version of the messages. It changes whenever they become incompatible.
	protocol = 1
	// maxLine is the longest line of either direction, bytes.
	maxLine = 1 << 20
	// maxOutput is the most of a program's output that one event carries, bytes: far less than a line of base64 has room for.
	maxOutput = 64 << 10
)

// request is a message from the lab to the host. One field beside ID is set.
type request struct {
	// ID is that of the answer; of Start also that of the program from then on, which Stop and its events name.
	ID       int      `json:"id"`
	Start    *program `json:"start,omitempty"`
	Stop     int      `json:"stop,omitempty"`      // the signal to send before it is killed
	FreePort string   `json:"free_port,omitempty"` // the address on which to look for a port
	Clock    bool     `json:"clock,omitempty"`
}

type program struct {
	Name   string   `json:"name"`
	Path   string   `json:"path"`
	Args   []string `json:"args,omitempty"`
	CPUs   []int    `json:"cpus,omitempty"`
	Stdout bool     `json:"stdout,omitempty"` // whether its output is wanted
}

// event is a message from the host to the lab. One field beside ID is set.
type event struct {
	ID     int    `json:"id"`
	Hello  *hello `json:"hello,omitempty"` // first of all
	Pid    int    `json:"pid,omitempty"`   // the answer to Start
	Port   int    `json:"port,omitempty"`  // the answer to FreePort
	Clock  int64  `json:"clock,omitempty"` // the answer to Clock, ns since 1970
	Error  string `json:"error,omitempty"` // the answer to a request that failed
	Output []byte `json:"output,omitempty"`
	Ended  *ended `json:"ended,omitempty"` // the last of a program
}

// hello identifies the host's side.
type hello struct {
	Protocol int    `json:"protocol"`
	Version  string `json:"version"` // of mcmwlab
}

// ended is how a program ended.
type ended struct {
	Code int    `json:"code"` // -1: by a signal
	Text string `json:"text"` // for an error: its name, how it ended, and the end of what it wrote
}

// writer writes messages. It is safe for concurrent use.
type writer struct {
	mu      sync.Mutex // one message at a time
	encoder *json.Encoder
}

func newWriter(w io.Writer) *writer { return &writer{encoder: json.NewEncoder(w)} }

func (w *writer) write(message any) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.encoder.Encode(message)
}

// read hands every message of r to take, until one is none, or r or take fails. At the end of r the error is nil.
func read[M any](r io.Reader, take func(M) error) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var message M
		if err := json.Unmarshal(lines.Bytes(), &message); err != nil {
			return fmt.Errorf("%.80q is no message: %w", lines.Text(), err)
		}
		if err := take(message); err != nil {
			return err
		}
	}
	return lines.Err()
}
