package foreign

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"mcmw/lab/memtier"
)

// Configuration is one combination of settings of a tree, with its repetitions.
type Configuration struct {
	// Dir is the folder below the tree's root. Params has the settings in its name, such as "nmw": "2".
	Dir         string
	Params      map[string]string
	Repetitions []Repetition
}

// Repetition has the outputs of the clients and middlewares of a run.
type Repetition struct {
	Number      int
	Clients     []*memtier.Output
	Middlewares []*MiddlewareOutput
	// Dstat has the samples by machine, such as "mw1".
	Dstat map[string][]HostSample
	// Files has the paths of the outputs below the root.
	Files []string
}

// fileName matches the names of outputs, with program, instance and repetition.
var fileName = regexp.MustCompile(`^(cliout|mwout|dstatout-)([a-z]*)(\d+)rep(\d+)\.out$`)

// ReadTree reads the experiments of a tree: folders named by settings, such as nsvr=3/nmw=2, with the outputs of
// memtier (cliout1rep2.out: instance 1, repetition 2), of middlewares (mwout1rep2.out) and of dstat
// (dstatout-mw1rep2.out). The configurations are in the order of their folders' names.
func ReadTree(ctx context.Context, root fs.FS) ([]Configuration, error) {
	folders := map[string]*Configuration{}
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		match := fileName.FindStringSubmatch(entry.Name())
		if entry.IsDir() || match == nil {
			return nil
		}
		dir := path.Dir(name)
		c := folders[dir]
		if c == nil {
			c = &Configuration{Dir: dir, Params: paramsOf(dir)}
			folders[dir] = c
		}
		number, err := strconv.Atoi(match[4])
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := c.repetition(number).read(root, name, match[1], match[2]+match[3]); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(folders) == 0 {
		return nil,
			errors.New("no output found: expected files such as cliout1rep1.out and mwout1rep1.out in folders such " +
				"as nsvr=1/nmw=2")
	}
	var configurations []Configuration
	for _, dir := range slices.Sorted(maps.Keys(folders)) {
		c := folders[dir]
		slices.SortFunc(c.Repetitions, func(a, b Repetition) int { return a.Number - b.Number })
		if !slices.ContainsFunc(c.Repetitions, func(r Repetition) bool { return len(r.Clients) > 0 }) {
			return nil, fmt.Errorf("%s: no repetition has an output of a client", dir)
		}
		configurations = append(configurations, *c)
	}
	return configurations, nil
}

// failure returns the reason why a repetition doesn't count; "" if it does. All clients and middlewares that any
// repetition has must have answered requests, just as a run of mcmwlab fails if one of its load processes fails.
func (c *Configuration) failure(r Repetition) string {
	clients, middlewares := 0, 0
	for _, other := range c.Repetitions {
		clients, middlewares = max(clients, len(other.Clients)), max(middlewares, len(other.Middlewares))
	}
	switch {
	case len(r.Clients) == 0:
		return "it has no output of a client"
	case len(r.Clients) < clients:
		return fmt.Sprintf("it has outputs of %d clients, another repetition has %d", len(r.Clients), clients)
	case len(r.Middlewares) < middlewares:
		return fmt.Sprintf("it has outputs of %d middlewares, another repetition has %d", len(r.Middlewares),
			middlewares)
	}
	silent := 0
	for _, client := range r.Clients {
		if row, ok := client.Overall().Row("Totals"); !ok || !(row.Throughput > 0) {
			silent++
		}
	}
	if silent > 0 {
		return fmt.Sprintf("%d of %d clients measured no request", silent, len(r.Clients))
	}
	if len(r.Middlewares) > 0 && !(throughputOf(r.Middlewares, trim) > 0) {
		return fmt.Sprintf("a middleware answered no request except in its first and last %d s", trim)
	}
	return ""
}

// paramsOf returns the settings in a path: folders named NAME=VALUE.
func paramsOf(dir string) map[string]string {
	params := map[string]string{}
	for folder := range strings.SplitSeq(dir, "/") {
		if name, value, ok := strings.Cut(folder, "="); ok {
			params[name] = value
		}
	}
	return params
}

// repetition returns the repetition with a number, which it adds if needed.
func (c *Configuration) repetition(number int) *Repetition {
	i := slices.IndexFunc(c.Repetitions, func(r Repetition) bool { return r.Number == number })
	if i < 0 {
		i = len(c.Repetitions)
		c.Repetitions = append(c.Repetitions, Repetition{Number: number, Dstat: map[string][]HostSample{}})
	}
	return &c.Repetitions[i]
}

// read adds an output. Files are read in the order of their names; the order of instances changes no result.
func (r *Repetition) read(root fs.FS, name, what, machine string) error {
	file, err := root.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	r.Files = append(r.Files, name)
	switch what {
	case "cliout":
		out, err := memtier.ParseText(file)
		if err != nil {
			return err
		}
		r.Clients = append(r.Clients, out)
	case "mwout":
		out, err := ParseMiddleware(file)
		if err != nil {
			return err
		}
		r.Middlewares = append(r.Middlewares, out)
	default:
		samples, err := ParseDstat(file)
		if err != nil {
			return err
		}
		r.Dstat[machine] = samples
	}
	return nil
}

func (r *Repetition) connections() int {
	n := 0
	for _, client := range r.Clients {
		n += client.Clients()
	}
	return n
}
