package route

import (
	"fmt"
	"strings"
)

// ReadPolicy says which replica of a key serves a read.
type ReadPolicy uint8

// The read policies. ReadDefault is round-robin where every server holds every key, and primary otherwise.
const (
	ReadDefault ReadPolicy = iota
	ReadRoundRobin
	ReadPrimary
	ReadLeastBusy
)

// RingKind says how a key is mapped to servers: by rendezvous hashing, or on a ring whose points are another program's.
type RingKind uint8

const (
	// RingRendezvous means no ring: keys are placed by rendezvous hashing.
	RingRendezvous RingKind = iota
	// RingTwemproxy is twemproxy's ketama: about 160 points per server by weight, four from each MD5 of "name-i".
	RingTwemproxy
	// RingLibmemcached is libmemcached's unweighted ketama: 100 points per server, each the key hash of "name-i".
	RingLibmemcached
	// RingLibmemcachedWeighted is libmemcached's weighted ketama. It equals RingTwemproxy but for unix sockets, whose
	// names libmemcached extends by port 0.
	RingLibmemcachedWeighted
)

// HashKind is the hash of a key. The functions are those twemproxy offers, and libmemcached's of the same name.
type HashKind uint8

// The hashes. HashDefault is FNV1a64 on a ring, which is twemproxy's default. HashCRC32 has only 15 bits, as in twemproxy
// and libmemcached, and sends nearly every key of a ring to one server; it is there for those whose keys are placed that way
// already. HashCRC32a is the whole CRC-32.
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

// names are the texts of an enumeration, indexed by value.
type names []string

var (
	readNames = names{"default", "round-robin", "primary", "least-busy"}
	ringNames = names{"rendezvous", "twemproxy", "libmemcached", "libmemcached-weighted"}
	hashNames = names{
		"default", "fnv1a_64", "fnv1_64", "fnv1a_32", "fnv1_32", "one_at_a_time", "md5",
		"crc16", "crc32", "crc32a", "hsieh", "murmur", "jenkins",
	}
)

func (n names) list() string { return strings.Join(n, ", ") }

func (n names) text(i int) string {
	if i < len(n) {
		return n[i]
	}
	return fmt.Sprintf("unknown(%d)", i)
}

// parse returns the value whose text is s; what names the enumeration in the error.
func parse[T ~uint8](n names, what, s string) (T, error) {
	for i, name := range n {
		if name == s {
			return T(i), nil
		}
	}
	return 0, fmt.Errorf("unknown %s %q; accepted: %s", what, s, n.list())
}

// set parses text into v, which is unchanged on error.
func set[T ~uint8](v *T, n names, what, text string) error {
	parsed, err := parse[T](n, what, text)
	if err == nil {
		*v = parsed
	}
	return err
}

// ParseReadPolicy returns the policy named s: "round-robin", "primary", "least-busy", or "default".
func ParseReadPolicy(s string) (ReadPolicy, error) {
	return parse[ReadPolicy](readNames, "read policy", s)
}

// ParseRingKind returns the ring named s: "rendezvous", "twemproxy", "libmemcached" or "libmemcached-weighted".
func ParseRingKind(s string) (RingKind, error) { return parse[RingKind](ringNames, "ring", s) }

// ParseHashKind returns the hash that twemproxy's configuration names s, such as "fnv1a_64".
func ParseHashKind(s string) (HashKind, error) { return parse[HashKind](hashNames, "hash", s) }

// ReadPolicyNames lists the accepted texts of a ReadPolicy.
func ReadPolicyNames() []string { return append([]string(nil), readNames...) }

// RingKindNames lists the accepted texts of a RingKind.
func RingKindNames() []string { return append([]string(nil), ringNames...) }

// HashKindNames lists the accepted texts of a HashKind.
func HashKindNames() []string { return append([]string(nil), hashNames...) }

func (p ReadPolicy) String() string { return readNames.text(int(p)) }
func (k RingKind) String() string   { return ringNames.text(int(k)) }
func (k HashKind) String() string   { return hashNames.text(int(k)) }

// Set and Type make the three types flag values; MarshalText and UnmarshalText make them YAML values.

func (p *ReadPolicy) Set(s string) error { return set(p, readNames, "read policy", s) }
func (k *RingKind) Set(s string) error   { return set(k, ringNames, "ring", s) }
func (k *HashKind) Set(s string) error   { return set(k, hashNames, "hash", s) }

func (p ReadPolicy) Type() string { return "policy" }
func (k RingKind) Type() string   { return "ring" }
func (k HashKind) Type() string   { return "hash" }

func (p ReadPolicy) MarshalText() ([]byte, error) { return []byte(p.String()), nil }
func (k RingKind) MarshalText() ([]byte, error)   { return []byte(k.String()), nil }
func (k HashKind) MarshalText() ([]byte, error)   { return []byte(k.String()), nil }

func (p *ReadPolicy) UnmarshalText(b []byte) error { return p.Set(string(b)) }
func (k *RingKind) UnmarshalText(b []byte) error   { return k.Set(string(b)) }
func (k *HashKind) UnmarshalText(b []byte) error   { return k.Set(string(b)) }
