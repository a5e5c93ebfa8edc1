package remote

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"sync"
)

const (
	// protocol is the version of the messages. It changes when they become incompatible.
	protocol = 2
	// maxLine is the longest line of either direction, bytes.
	maxLine = 1 << 20
	// maxOutput is the most output of a program in one event, bytes. In base64 it is far shorter than maxLine.
	maxOutput = 64 << 10
)

// request is a message from the lab to the host. Exactly one field besides ID is set.
type request struct {
	// ID is repeated in the answer. The ID of Start also identifies the program: Stop and the program's events name it.
	ID       int      `json:"id"`
	Start    *program `json:"start,omitempty"`
	Stop     int      `json:"stop,omitempty"`      // the signal to send; the host kills the program later if needed
	FreePort string   `json:"free_port,omitempty"` // the address for which a port is wanted
	Clock    bool     `json:"clock,omitempty"`
}

type program struct {
	Name   string   `json:"name"`
	Path   string   `json:"path"`
	Args   []string `json:"args,omitempty"`
	CPUs   []int    `json:"cpus,omitempty"`
	Stdout bool     `json:"stdout,omitempty"` // whether its output is sent back
}

// event is a message from the host to the lab. Exactly one field besides ID is set.
type event struct {
	ID     int    `json:"id"`
	Hello  *hello `json:"hello,omitempty"` // the first message
	Pid    int    `json:"pid,omitempty"`   // the answer to Start
	Port   int    `json:"port,omitempty"`  // the answer to FreePort
	Clock  int64  `json:"clock,omitempty"` // the answer to Clock, ns since 1970
	Error  string `json:"error,omitempty"` // the answer to a failed request
	Output []byte `json:"output,omitempty"`
	Ended  *ended `json:"ended,omitempty"` // the last event of a program
}

// hello identifies the host's side.
type hello struct {
	Protocol int    `json:"protocol"`
	Version  string `json:"version"` // of mcmwlab
}

// ended is how a program ended.
type ended struct {
	Code int    `json:"code"` // -1: by a signal
	Text string `json:"text"` // for an error: the program's name, how it ended, and the end of its output
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

// read passes every message of r to take, until a line is not a message, or r or take fails. At the end of r the error
// is nil.
func read[M any](r io.Reader, take func(M) error) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var message M
		if err := json.Unmarshal(lines.Bytes(), &message); err != nil {
			return fmt.Errorf("%.80q is not a message: %w", lines.Text(), err)
		}
		if err := take(message); err != nil {
			return err
		}
	}
	return lines.Err()
}
