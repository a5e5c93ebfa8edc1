package mctest

import (
	"strings"
	"sync"
)

// Output collects a program's output. Tests can read it, and wait for a text in it, while the program runs. The zero
// value is ready for use and keeps everything.
type Output struct {
	// Limit is the number of bytes to keep, from the beginning; 0: all. Set it before the first write.
	Limit int

	mu     sync.Mutex // guards the fields below
	text   []byte
	awaits []await
}

// await is a text that a goroutine waits for.
type await struct {
	text    string
	written chan struct{} // closed once text was written
}

// Write never fails.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	kept := p
	if o.Limit > 0 {
		kept = p[:min(max(o.Limit-len(o.text), 0), len(p))]
	}
	o.text = append(o.text, kept...)
	waiting := o.awaits[:0]
	for _, a := range o.awaits {
		if strings.Contains(string(o.text), a.text) {
			close(a.written)
		} else {
			waiting = append(waiting, a)
		}
	}
	o.awaits = waiting
	return len(p), nil
}

// String returns the kept output.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.text)
}

// Written returns a channel that is closed once text has been written, in one write or several.
func (o *Output) Written(text string) <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	a := await{text: text, written: make(chan struct{})}
	if strings.Contains(string(o.text), text) {
		close(a.written)
	} else {
		o.awaits = append(o.awaits, a)
	}
	return a.written
}

// Take returns and removes the output since the last Take. Channels of Written then wait for text written later.
func (o *Output) Take() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	text := string(o.text)
	o.text = o.text[:0]
	return text
}
