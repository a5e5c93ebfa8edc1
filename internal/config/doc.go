// Package config reads the operator's settings into a Config. The sources, in descending order of precedence, are
// command line flags, MCMW_* environment variables, a strict YAML file, and defaults.
//
// The table in options.go describes every option once: its names, default, range and meaning. The flags, the
// environment variables, the file's keys, `mcmw config print` and docs/configuration.md are derived from it.
//
// Every value of every source is checked, even if another source overrides it, and all problems are reported together.
// A Problem says where the value is, what it is and what is accepted.
//
// Nothing on the path of a request imports this package: the stages have their own Options.
package config

//go:generate go run mcmw/cmd/mcmw config docs --write ../../docs/configuration.md
