package config

import "strings"

// Origin says where a value came from.
type Origin struct {
	source source
	where  string // a flag, an environment variable, or file:line
}

// source is a kind of source, in ascending order of precedence.
type source uint8

const (
	sourceDefault source = iota
	sourceFile
	sourceEnv
	sourceFlag
)

// String returns the origin as `config print --show-origin` writes it: "default", "mcmw.yaml:3", "env MCMW_WORKERS" or
// "flag -t, --workers".
func (o Origin) String() string {
	switch o.source {
	case sourceDefault:
		return "default"
	case sourceEnv:
		return "env " + o.where
	case sourceFlag:
		return "flag " + o.where
	}
	return o.where
}

// Problem is one mistake in the configuration.
type Problem struct {
	// Origin is where the value came from. A default is never wrong on its own: here it means that a value is missing.
	Origin Origin
	// Option is the name of the option, "" if the problem does not belong to one.
	Option string
	// Text says what is wrong and what is accepted.
	Text string
}

// String returns the problem in one line.
func (p Problem) String() string {
	var parts []string
	if p.Origin.source != sourceDefault {
		parts = append(parts, p.Origin.String())
	}
	if p.Option != "" && (p.Origin.source == sourceFile || p.Origin.source == sourceDefault) {
		parts = append(parts, p.Option)
	}
	return strings.Join(append(parts, p.Text), ": ")
}

// Problems are all mistakes in a configuration, as one error. It is never empty when returned as an error.
type Problems []Problem

// Error returns one line per problem.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// asError returns ps as an error, nil when there is no problem.
func (ps Problems) asError() error {
	if len(ps) == 0 {
		return nil
	}
	return ps
}
