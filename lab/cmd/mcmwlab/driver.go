package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/pflag"

	"mcmw/lab/load"
	"mcmw/lab/memtier"
)

// The drivers of `mcmwlab load`.
const (
	driverOwn     = load.DriverOwn
	driverMemtier = memtier.Name
)

// driverFlags select the load generator.
type driverFlags struct {
	name    string
	memtier memtier.Program
}

func (d *driverFlags) define(flags *pflag.FlagSet) {
	flags.StringVar(&d.name, "driver", driverOwn,
		"load generator: mcmwlab, or memtier (memtier_benchmark, which must be installed)")
	flags.StringVar(&d.memtier.Path, "memtier", "", "path of memtier_benchmark (default: the one in PATH)")
}

func (d *driverFlags) check() error {
	_, err := isSecond("driver", d.name, driverOwn, driverMemtier)
	return err
}

func (d *driverFlags) runMemtier(ctx context.Context, o load.Options, quiet bool, stderr io.Writer) (*load.Result,
	error,
) {
	complete, err := o.Complete()
	if err == nil {
		_, err = memtier.Arguments(complete)
	}
	if err != nil {
		return nil, usageError{err}
	}
	if !quiet {
		p := newProgress(stderr)
		length := complete.Duration.String()
		if complete.Duration <= 0 {
			length = fmt.Sprintf("%d requests per connection", complete.Requests)
		}
		p.show("memtier_benchmark runs for " + length)
		defer p.clear()
	}
	return d.memtier.Run(ctx, o)
}
