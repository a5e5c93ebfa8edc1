package route

import "mcmw/internal/enum"

// ReadPolicy selects the replica of a key that serves a read.
type ReadPolicy uint8

// The read policies. ReadDefault is round-robin if every server holds every key, and primary otherwise. ReadNearest is
// round-robin among the servers in Options.Zone, and among the other servers only if none of those can be read.
const (
	ReadDefault ReadPolicy = iota
	ReadRoundRobin
	ReadPrimary
	ReadLeastBusy
	ReadNearest
)

// RingKind selects how a key is mapped to servers: by rendezvous hashing, or on a ring whose points are those of
// another program.
type RingKind uint8

const (
	// RingRendezvous means no ring: keys are placed by rendezvous hashing.
	RingRendezvous RingKind = iota
	// RingTwemproxy is twemproxy's ketama: about 160 points per server by weight, four from each MD5 of "name-i".
	RingTwemproxy
	// RingLibmemcached is libmemcached's unweighted ketama: 100 points per server, each the key hash of "name-i".
	RingLibmemcached
	// RingLibmemcachedWeighted is libmemcached's weighted ketama. It equals RingTwemproxy except for unix sockets, to
	// whose names libmemcached appends port 0.
	RingLibmemcachedWeighted
)

// HashKind is the hash of a key. The functions are twemproxy's, and libmemcached's of the same names.
type HashKind uint8

// The hashes. HashDefault is FNV1a64 on a ring, which is twemproxy's default. HashCRC32 has only 15 bits, as in
// twemproxy and libmemcached, and sends nearly every key of a ring to one server; it is offered for keys that are
// already placed that way. HashCRC32a is the whole CRC-32.
const (
	HashDefault HashKind = iota
	HashFNV1a64
	HashFNV1x64
	HashFNV1a32
	HashFNV1x32
	HashOneAtATime
	HashMD5
	HashCRC16
	HashCRC32
	HashCRC32a
	HashHsieh
	HashMurmur
	HashJenkins
)

// Accepts is the kind of a route: which requests for its keys are served. The others are answered with an error. Where
// the keys are does not depend on it.
type Accepts uint8

// The kinds of routes.
const (
	AcceptsAll Accepts = iota
	AcceptsReads
	AcceptsNothing
)

// AcceptsNames are the names of the kinds of routes.
var AcceptsNames = enum.New[Accepts]("kind of requests that a route accepts",
	"all",
	"reads",
	"nothing",
)

// The names of the read policies, the rings, and the hashes; the hashes have their names from twemproxy's
// configuration.
var (
	ReadPolicyNames = enum.New[ReadPolicy]("read policy", "default", "round-robin", "primary", "least-busy", "nearest")
	RingNames       = enum.New[RingKind]("ring", "rendezvous", "twemproxy", "libmemcached", "libmemcached-weighted")
	HashNames       = enum.New[HashKind]("hash", "default", "fnv1a_64", "fnv1_64", "fnv1a_32", "fnv1_32",
		"one_at_a_time", "md5",
		"crc16", "crc32", "crc32a", "hsieh", "murmur", "jenkins")
)

func (p ReadPolicy) String() string { return ReadPolicyNames.Of(p) }
func (k RingKind) String() string   { return RingNames.Of(k) }
func (k HashKind) String() string   { return HashNames.Of(k) }
