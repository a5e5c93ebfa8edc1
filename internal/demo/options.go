package demo

import (
	"fmt"
	"strconv"
	"time"
)

const (
	// ShardedKeys is the number of keys per GET with --sharded: a single key cannot be split.
	ShardedKeys = 12
	// maxKeys is the number of keys that the load uses, unless their values would not fit.
	maxKeys = 10_000
	// fill is the part of each server's memory that the values may fill, bytes: half of it.
	fill = Memory << 20 / 2
)

// Options are the options of a demo. Fields whose zero value has no stated meaning are required.
type Options struct {
	Clients   int
	Workers   int
	Depth     int
	ValueSize int // bytes
	MultiGet  int // keys per GET; 0: 1, or ShardedKeys with Sharded
	Ratio     Ratio
	Replicas  Replicas
	Sharded   bool
	Admin     string        // address of the live page; "": none
	Duration  time.Duration // 0: until interrupted
	Version   string        // of the program
}

// keysPerGet returns the number of keys in each GET.
func (o *Options) keysPerGet() int {
	switch {
	case o.MultiGet > 0:
		return o.MultiGet
	case o.Sharded:
		return ShardedKeys
	default:
		return 1
	}
}

// keys returns the number of keys that the load uses.
func (o *Options) keys() uint64 { return uint64(min(maxKeys, fill/o.ValueSize)) }

// String describes the demo in one line.
func (o *Options) String() string {
	text := fmt.Sprintf("%d servers, %d workers, %d clients, values of %d bytes, SET:GET %v", Servers, o.Workers,
		o.Clients,
		o.ValueSize, o.Ratio)
	if n := o.keysPerGet(); n > 1 {
		text += fmt.Sprintf(", %d keys per GET", n)
	}
	if o.Sharded {
		text += ", sharded"
	}
	if o.Replicas != 0 {
		text += fmt.Sprintf(", %v of %d servers hold each key", o.Replicas, Servers)
	}
	return text
}

// Ratio is the ratio of SETs to GETs in the load.
type Ratio struct{ Sets, Gets int }

func (r Ratio) String() string { return fmt.Sprintf("%d:%d", r.Sets, r.Gets) }

// Replicas is the number of servers that hold each key; 0 means all.
type Replicas int

func (r Replicas) String() string {
	if r == 0 {
		return "all"
	}
	return strconv.Itoa(int(r))
}
