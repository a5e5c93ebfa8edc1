package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mcmw/internal/middleware"
)

// demoOptions are the flags of `mcmw demo`.
type demoOptions struct {
	clients   int
	workers   int
	depth     int
	valueSize int
	multiGet  int // keys per GET; 0: 1, or demoMultiGet with sharded
	ratio     ratio
	replicas  replicas
	sharded   bool
	admin     string
	duration  time.Duration // 0: until interrupted
}

const (
	// demoMultiGet is the number of keys per GET with --sharded: a single key cannot be split.
	demoMultiGet = 12
	// demoKeys is how many keys the load uses, unless their values would not fit.
	demoKeys = 10_000
	// demoFill is the part of each server's memory that all values may take, bytes: half of it.
	demoFill = demoMemory << 20 / 2
)

func addDemoFlags(command *cobra.Command) *demoOptions {
	o := &demoOptions{
		clients: 32, workers: middleware.DefaultWorkers(), depth: middleware.DefaultDepth, valueSize: 64, ratio: ratio{1, 9},
	}
	flags := command.Flags()
	flags.SortFlags = false
	number := func(value *int, name string, low, high int, help string) {
		flags.Var(&checked[int]{value, between(low, high), "number"}, name, help)
	}
	number(&o.clients, "clients", 1, 4096, "connections of the load, each with one request at a time")
	number(&o.workers, "workers", 1, 512, "workers of the middleware")
	number(&o.depth, "depth", 1, 4096, "requests that a worker takes at a time; 1: synchronous workers")
	number(&o.valueSize, "value-size", 1, 1_000_000, "size of the values, bytes")
	number(&o.multiGet, "multi-get", 0, 1000, fmt.Sprintf("keys per GET; 0: 1, with --sharded %d", demoMultiGet))
	flags.Var(&checked[ratio]{&o.ratio, parseRatio, "sets:gets"}, "ratio", "SETs to GETs")
	flags.Var(&checked[replicas]{&o.replicas, parseReplicas, "all|number"}, "replicas", "servers that hold each key")
	flags.BoolVar(&o.sharded, "sharded", false, "split multi-gets over the servers that hold their keys")
	flags.StringVar(&o.admin, "admin", "127.0.0.1:9150", `address of the live page and the metrics; "": none`)
	flags.Var(&checked[time.Duration]{&o.duration, parseSpan, "duration"}, "duration", "how long to run; 0s: until interrupted")
	return o
}

// keysPerGet returns how many keys each GET asks for.
func (o *demoOptions) keysPerGet() int {
	switch {
	case o.multiGet > 0:
		return o.multiGet
	case o.sharded:
		return demoMultiGet
	default:
		return 1
	}
}

// keys returns how many keys the load uses.
func (o *demoOptions) keys() uint64 { return uint64(min(demoKeys, demoFill/o.valueSize)) }

// String describes the demo in one line.
func (o *demoOptions) String() string {
	text := fmt.Sprintf("%d servers, %d workers, %d clients, values of %d bytes, SET:GET %v", demoServers, o.workers, o.clients,
		o.valueSize, o.ratio)
	if n := o.keysPerGet(); n > 1 {
		text += fmt.Sprintf(", %d keys per GET", n)
	}
	if o.sharded {
		text += ", sharded"
	}
	if o.replicas != 0 {
		text += fmt.Sprintf(", %v of %d hold a key", o.replicas, demoServers)
	}
	return text
}

// checked is a flag whose value is checked as it is read. It implements pflag.Value.
type checked[T any] struct {
	value *T
	parse func(string) (T, error) // its error says what is accepted
	kind  string
}

func (c *checked[T]) Set(text string) error {
	v, err := c.parse(text)
	if err == nil {
		*c.value = v
	}
	return err
}

func (c *checked[T]) String() string {
	if c.value == nil { // pflag creates a zero value to compare with
		return ""
	}
	return fmt.Sprint(*c.value)
}

func (c *checked[T]) Type() string { return c.kind }

// between parses a number from low to high.
func between(low, high int) func(string) (int, error) {
	return func(text string) (int, error) {
		n, err := strconv.Atoi(text)
		if err != nil || n < low || n > high {
			return 0, fmt.Errorf("accepted: %d to %d", low, high)
		}
		return n, nil
	}
}

// ratio is the ratio of SETs to GETs in the load.
type ratio struct{ sets, gets int }

func (r ratio) String() string { return fmt.Sprintf("%d:%d", r.sets, r.gets) }

func parseRatio(text string) (ratio, error) {
	sets, gets, found := strings.Cut(text, ":")
	s, errSets := between(0, 1000)(sets)
	g, errGets := between(0, 1000)(gets)
	if !found || errSets != nil || errGets != nil || s+g == 0 {
		return ratio{}, fmt.Errorf("accepted: SETs:GETs such as 1:9, each 0 to 1000, not both 0")
	}
	return ratio{s, g}, nil
}

// replicas is how many servers hold each key; 0 means all.
type replicas int

func (r replicas) String() string {
	if r == 0 {
		return "all"
	}
	return strconv.Itoa(int(r))
}

func parseReplicas(text string) (replicas, error) {
	if text == "all" {
		return 0, nil
	}
	n, err := between(1, demoServers)(text)
	if err != nil {
		return 0, fmt.Errorf("accepted: all, or 1 to %d, which is how many servers there are", demoServers)
	}
	return replicas(n), nil
}

func parseSpan(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("accepted: a duration such as 30s or 1m30s, or 0s")
	}
	return d, nil
}
