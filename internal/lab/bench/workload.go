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
	// Goal is what mcmw is to reach of twemproxy's figures.
	Goal Goal `json:"goal"`
	// load is what the generator does; targets and times are added for each measurement.
	load load.Options
	// servers is how many servers there are; 0 means serverCount.
	servers int
	// args are added to mcmw's command line.
	args []string
}

// Workloads returns all workloads, in the order of the tables.
func Workloads() []Workload {
	small := load.Options{Sets: 1, Gets: 9, ValueSize: 64}
	with := func(o load.Options, connections, pipeline, keysPerGet int) load.Options {
		o.Connections, o.Pipeline, o.KeysPerGet = connections, pipeline, keysPerGet
		return o
	}
	return []Workload{
		{Name: "get-4k", Title: "GET, 4 KiB, 64 connections", Replicas: "1", Goal: Goal{1.10, 0.90, 1.0}, load: with(load.Options{Gets: 1, ValueSize: 4096}, 64, 1, 1)},
		{Name: "set-4k", Title: "SET, 4 KiB, 64 connections", Replicas: "1", load: with(load.Options{Sets: 1, ValueSize: 4096}, 64, 1, 1)},
		{Name: "mixed-64", Title: "SET:GET 1:9, 64 B, 64 connections", Replicas: "1", Goal: Goal{1.15, 0.85, 1.0}, load: with(small, 64, 1, 1)},
		{Name: "mixed-1", Title: "SET:GET 1:9, 64 B, 1 connection", Replicas: "1", Goal: Goal{1.0, 1.0, 1.0}, load: with(small, 1, 1, 1)},
		{Name: "mixed-400", Title: "SET:GET 1:9, 64 B, 400 connections", Replicas: "1", Goal: Goal{1.10, 0.95, 1.0}, load: with(small, 400, 1, 1)},
		{Name: "pipelined", Title: "SET:GET 1:9, 64 B, 16 connections, pipeline 16", Replicas: "1", Goal: Goal{1.10, 0.90, 1.0}, load: with(small, 16, 16, 1)},
		{Name: "multi-get", Title: "multi-get of 10 keys, 64 B, 64 connections", Replicas: "1", Goal: Goal{1.25, 0.80, 1.0}, load: with(load.Options{Gets: 1, ValueSize: 64}, 64, 1, 10)},
		{Name: "replicated", Title: "SET:GET 1:9, 64 B, 64 connections, mcmw with replicas all", Replicas: "all", Goal: Goal{1.0, 1.0, 1.1}, load: with(small, 64, 1, 1)},
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
