// Package config reads the operator's settings into a Config: command line flags, then MCMW_* environment variables, then a
// strict YAML file, then defaults; the first of them that sets an option wins.
//
// Every option is described once, in the table in options.go: its names, default, range and meaning. The flags, the
// environment variables, the file's keys, `mcmw config print` and docs/configuration.md are all derived from that table.
//
// Every value of every source is checked, even if another source overrides it, and all problems are reported together. A
// Problem says where the value is, what was given and what is accepted.
//
// The package belongs to the command. Nothing on a request's path imports it: the stages have Options of their own.
package config

//go:generate go run mcmw/cmd/mcmw config docs --write ../../docs/configuration.md
