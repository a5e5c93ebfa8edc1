// Package refusal is the error for a setting that is refused, wherever it is checked. The reader of the configuration
// finds the line.
package refusal

import "fmt"

// Error says which setting is wrong, and why.
type Error struct {
	// Path names the setting: an option, such as replicas; one of a pool, such as pools.NAME.gutter; or an element,
	// such as routes[2].
	Path string
	// Text says what is wrong and what is accepted.
	Text string
}

func (e *Error) Error() string { return e.Path + ": " + e.Text }

// Of returns an *Error.
func Of(path, text string, args ...any) error { return &Error{path, fmt.Sprintf(text, args...)} }
