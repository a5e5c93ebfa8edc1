// Package enum maps the values of enumerations to their names and back.
package enum

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Names are the names of the values of T, which count from 0. They are immutable and safe for concurrent use.
type Names[T ~uint8] struct {
	what  string
	names []string
}

// New returns names for the values of T, in order. what describes T in errors, such as "read policy".
func New[T ~uint8](what string, names ...string) Names[T] { return Names[T]{what, names} }

// Of returns the name of v.
func (n Names[T]) Of(v T) string {
	if int(v) < len(n.names) {
		return n.names[v]
	}
	return fmt.Sprintf("unknown(%d)", v)
}

// All returns all names, in the order of the values.
func (n Names[T]) All() []string { return slices.Clone(n.names) }

// Parse returns the value with this name.
func (n Names[T]) Parse(name string) (T, error) {
	if i := slices.Index(n.names, name); i >= 0 {
		return T(i), nil
	}
	return 0, n.unknown(strconv.Quote(name))
}

// Check returns an error if v has no name.
func (n Names[T]) Check(v T) error {
	if int(v) < len(n.names) {
		return nil
	}
	return n.unknown(strconv.Itoa(int(v)))
}

func (n Names[T]) unknown(given string) error {
	return fmt.Errorf("unknown %s %s; accepted: %s", n.what, given, strings.Join(n.names, ", "))
}
