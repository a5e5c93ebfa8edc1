package foreign

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"mcmw/internal/lab/memtier"
)

// Configuration is one combination of settings of a tree, with its repetitions.
type Configuration struct {
	// Dir is the folder below the tree's root, Params what its name says, such as "nmw": "2".
	Dir         string
	Params      map[string]string
	Repetitions []Repetition
}

// Repetition has the outputs of the clients and middlewares of a run, in the order of their numbers.
type Repetition struct {
	Number      int
	Clients     []*memtier.Output
	Middlewares []*MiddlewareOutput
	// Dstat has the samples of a machine by its name, such as "mw1".
	Dstat map[string][]HostSample
	// Files are the paths of the outputs below the root.
	Files []string
}

// fileName is the form of the outputs' names: the instance and the repetition.
var fileName = regexp.MustCompile(`^(cliout|mwout|dstatout-)([a-z]*)(\d+)rep(\d+)\.out$`)

// ReadTree reads the experiments of a tree: folders named by settings, such as nsvr=3/nmw=2, and in each the outputs of memtier
// (cliout1rep2.out: instance 1, repetition 2), of middlewares (mwout1rep2.out) and of dstat (dstatout-mw1rep2.out).
// Configurations come in the order of their folders' names.
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
		return nil, errors.New("no output found: expected files such as cliout1rep1.out and mwout1rep1.out in folders such as nsvr=1/nmw=2")
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

// failure says why a repetition measured nothing that counts, "" if it did: all clients and middlewares that any repetition has must have
// answered requests, as a run of ours fails if one of its load processes does.
func (c *Configuration) failure(r Repetition) string {
	clients, middlewares := 0, 0
	for _, other := range c.Repetitions {
		clients, middlewares = max(clients, len(other.Clients)), max(middlewares, len(other.Middlewares))
	}
	switch {
	case len(r.Clients) == 0:
		return "there is no output of a client"
	case len(r.Clients) < clients:
		return fmt.Sprintf("there are outputs of %d clients; another repetition has %d", len(r.Clients), clients)
	case len(r.Middlewares) < middlewares:
		return fmt.Sprintf("there are outputs of %d middlewares; another repetition has %d", len(r.Middlewares), middlewares)
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
		return fmt.Sprintf("a middleware answered no request but in its first and last %d s", trim)
	}
	return ""
}

// paramsOf reads the settings off a path: what is left and right of the = in each folder's name.
func paramsOf(dir string) map[string]string {
	params := map[string]string{}
	for folder := range strings.SplitSeq(dir, "/") {
		if name, value, ok := strings.Cut(folder, "="); ok {
			params[name] = value
		}
	}
	return params
}

// repetition returns the repetition of this number, which is made.
func (c *Configuration) repetition(number int) *Repetition {
	for i := range c.Repetitions {
		if c.Repetitions[i].Number == number {
			return &c.Repetitions[i]
		}
	}
	c.Repetitions = append(c.Repetitions, Repetition{Number: number, Dstat: map[string][]HostSample{}})
	return &c.Repetitions[len(c.Repetitions)-1]
}

// read adds an output. Files come in the order of their names, and so do instances up to nine; their order changes no result.
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

// copyTo copies an output to a file that is made.
func copyTo(root fs.FS, name, target string) (err error) {
	in, err := root.Open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(target)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	_, err = io.Copy(out, in)
	return err
}
