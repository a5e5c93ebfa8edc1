// Package config turns what the operator wrote into a Config: command line flags, then MCMW_* environment variables,
// then a strict YAML file, then defaults; the first of them that says something about an option wins.
//
// Every option is described once, in the table in options.go: its names, default, range and meaning. The flags, the
// environment variables, the file's keys, `mcmw config print` and docs/configuration.md are all made from that table.
//
// Every value of every source is checked, also one that another source overrides, and all problems are reported
// together. A Problem says where the value stands, what was given and what is accepted.
//
// The package belongs to the command. Nothing on a request's path imports it: the stages get their own Options.
package config

//go:generate go run mcmw/cmd/mcmw config docs --write ../../docs/configuration.md
