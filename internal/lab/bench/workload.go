package bench

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"mcmw/internal/lab/load"
)

// Workload is one kind of load that systems are compared under.
type Workload struct {
	Name  string `json:"name"`  // for the command line
	Title string `json:"title"` // for tables
	// Replicas is what mcmw is told: "1" shards, "all" has every server hold every key. twemproxy always shards.
	Replicas string `json:"replicas"`
	// load is what the generator does; targets and times are added for each measurement.
	load load.Options
}

// Workloads returns all workloads, in the order of the tables.
func Workloads() []Workload {
	small := load.Options{Sets: 1, Gets: 9, ValueSize: 64}
	with := func(o load.Options, connections, pipeline, keysPerGet int) load.Options {
		o.Connections, o.Pipeline, o.KeysPerGet = connections, pipeline, keysPerGet
		return o
	}
	return []Workload{
		{"get-4k", "GET, 4 KiB, 64 connections", "1", with(load.Options{Gets: 1, ValueSize: 4096}, 64, 1, 1)},
		{"set-4k", "SET, 4 KiB, 64 connections", "1", with(load.Options{Sets: 1, ValueSize: 4096}, 64, 1, 1)},
		{"mixed-64", "SET:GET 1:9, 64 B, 64 connections", "1", with(small, 64, 1, 1)},
		{"mixed-1", "SET:GET 1:9, 64 B, 1 connection", "1", with(small, 1, 1, 1)},
		{"mixed-400", "SET:GET 1:9, 64 B, 400 connections", "1", with(small, 400, 1, 1)},
		{"pipelined", "SET:GET 1:9, 64 B, 16 connections, pipeline 16", "1", with(small, 16, 16, 1)},
		{"multi-get", "multi-get of 10 keys, 64 B, 64 connections", "1", with(load.Options{Gets: 1, ValueSize: 64}, 64, 1, 10)},
		{"replicated", "SET:GET 1:9, 64 B, 64 connections, mcmw with replicas all", "all", with(small, 64, 1, 1)},
	}
}

// selectWorkloads returns those named, in the order of the tables; all for no name.
func selectWorkloads(names []string) ([]Workload, error) {
	all := Workloads()
	if len(names) == 0 {
		return all, nil
	}
	var known []string
	for _, w := range all {
		known = append(known, w.Name)
	}
	var problems []error
	for _, name := range names {
		if !slices.Contains(known, name) {
			problems = append(problems, fmt.Errorf("workload %q: expected one of %s", name, strings.Join(known, ", ")))
		}
	}
	return slices.DeleteFunc(all, func(w Workload) bool { return !slices.Contains(names, w.Name) }), errors.Join(problems...)
}
