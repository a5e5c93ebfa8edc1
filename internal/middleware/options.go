package middleware

import (
	"log/slog"
	"time"

	"mcmw/internal/backend"
	"mcmw/internal/protocol"
	"mcmw/internal/replica"
	"mcmw/internal/route"
	"mcmw/internal/stats"
)

// Options is everything a Middleware is made from. The zero value of a field means what its comment says.
type Options struct {
	// Listen is where clients connect: "host:port" (port 0: any free one) or "unix:/path". At least one. With Security.TLS a
	// TCP address speaks TLS unless "notls:" stands in front of it.
	Listen []string
	// Servers are the memcached servers, in order. At least one.
	Servers []route.Server
	// Placement is the number of replicas and the hashing; see route.Options.
	Placement route.Options
	// Ack says how many replicas of a key must have given an answer to a write for it to be the client's.
	Ack replica.Ack
	// Sharded splits a multi-get over all servers that hold its keys.
	Sharded bool
	// Pool says how the workers are organised.
	Pool Pool
	// Workers is the size of the worker pool, with PoolPerServer that of each server's readers; 0 means DefaultWorkers().
	Workers int
	// Depth is how many waiting requests a worker takes at a time and pipelines to its servers; 1 is the synchronous
	// worker: one request in service. 0 means DefaultDepth.
	Depth int
	// Queue is the capacity of each bounded queue, in batches (all requests that one read of a connection brought);
	// 0 means DefaultQueue.
	Queue int
	// Shed answers a batch for which its queue has no room with errors, and does nothing of it. Otherwise its connection is
	// not read any further until there is room.
	Shed bool
	// Ready says which servers have to be up before the middleware is ready.
	Ready Ready
	// FailureLimit is the number of consecutive failures after which a server is down; 0 means DefaultFailureLimit.
	FailureLimit int
	// Rejoin says what happens to what a server missed before it serves reads again.
	Rejoin backend.Rejoin
	// MissedMemory bounds what is remembered of the writes that one server missed, bytes; 0 means DefaultMissedMemory. A
	// server that missed more is flushed.
	MissedMemory int
	// GetErrorMiss answers a read that no server could answer with a miss instead of an error.
	GetErrorMiss bool
	// Timeout is how long a request may take when servers do not answer; 0 means DefaultTimeout. A read that can be
	// answered by several servers is tried on a second after half of it.
	Timeout time.Duration
	// StallAfter is how long a server may owe a reply before requests that don't need it stop waiting for it: it is suspect
	// until it answers. At most a quarter of Timeout; 0 means DefaultStallAfter; below 0: never.
	StallAfter time.Duration
	// ConnectTimeout is how long connecting to a server may take; 0 means DefaultConnectTimeout.
	ConnectTimeout time.Duration
	// MaxConnections is how many clients may be connected; 0: as many as the limit on open files leaves room for.
	MaxConnections int
	// IdleTimeout is after how long without a request a client is closed; 0: never.
	IdleTimeout time.Duration
	// MinRate is how many bytes per second a client must send of a request that takes part of ClientMemory, or more time than
	// IdleTimeout; 0 means DefaultMinRate; below 0: any number.
	MinRate int
	// MaxOutput is how many bytes of replies may wait for one client that does not read them, before it is closed; 0 means
	// DefaultMaxOutput.
	MaxOutput int
	// WriteTimeout is how long such a client may take; 0 means DefaultWriteTimeout.
	WriteTimeout time.Duration
	// ClientMemory bounds, over all clients, what requests larger than 16 KiB take, bytes; and as much again what clients have
	// not read of their replies. 0 means DefaultClientMemory.
	ClientMemory int
	// DrainTimeout is how long Run waits for requests in flight after its context is done; 0 means DefaultDrainTimeout.
	DrainTimeout time.Duration
	// Security is about TLS and passwords.
	Security Security
	// Limits bound what a client may send; zero fields mean memcached's defaults.
	Limits protocol.Limits
	// Control is what `stats` reports of the configuration; nil leaves it out.
	Control *stats.Control
	// Version is what `stats` reports as mcmw's version.
	Version string
	// Tap gets the requests of the request log; nil means that there is none.
	Tap *stats.Tap
	// Log receives what an operator should know; nil discards it.
	Log *slog.Logger
}

// Defaults of Options.
const (
	DefaultDepth          = 128
	DefaultFailureLimit   = 3
	DefaultMissedMemory   = 64 << 20
	DefaultQueue          = 1024
	DefaultTimeout        = time.Second
	DefaultStallAfter     = 100 * time.Millisecond
	DefaultConnectTimeout = time.Second
	DefaultDrainTimeout   = 10 * time.Second
	DefaultMinRate        = 16 << 10
	DefaultMaxOutput      = 64 << 20
	DefaultWriteTimeout   = 30 * time.Second
	DefaultClientMemory   = 1 << 30
)

// stallAfter returns StallAfter as the workers take it: 0 for never.
func (o *Options) stallAfter() time.Duration { return max(0, min(o.StallAfter, o.Timeout/4)) }
