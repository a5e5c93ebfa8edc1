// Package hotkeys finds the keys that are asked for most, in bounded memory.
//
// Each worker counts a sample of the keys that it serves, by Space-Saving (Metwally, Agrawal and El Abbadi: Efficient
// Computation of Frequent and Top-k Elements in Data Streams, 2005): a key with more than 1/Counters of a worker's
// sample is among its counters. Counts are halved every HalfLife, so that they describe about the last minute.
//
// Package stats counts, of the same sample, who uses the cache; it has a Sketch of the keys' prefixes.
//
// Values holds values with which readers answer gets of hot keys, if this is enabled. Which keys these are does not
// depend on the sample.
package hotkeys

import (
	"bytes"
	"cmp"
	"hash/maphash"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"mcmw/internal/enum"
)

const (
	// Counters is how many keys a worker counts.
	Counters = 256
	// HalfLife is the time in which the weight of a request falls to a half.
	HalfLife = 10 * time.Second
	// SampleEvery is the mean distance between two keys of the sample.
	SampleEvery = 64
	// maxKey is the length of the longest key, bytes.
	maxKey = 250
)

// Mode says what is done with hot keys.
type Mode uint8

// The modes.
const (
	Detect Mode = iota // they are counted and shown
	Off                // nothing
	Serve              // they are counted and shown, and readers answer gets of them; see Values
)

// ModeNames are the modes' names.
var ModeNames = enum.New[Mode]("mode of hot keys", "detect", "off", "serve")

func (m Mode) String() string { return ModeNames.Of(m) }

// Keys has the sketches of all workers.
type Keys struct {
	seed maphash.Seed

	// Served are the values with which readers answer; nil: there are none. Static after construction.
	Served *Values

	mu       sync.Mutex
	sketches []*Sketch // guarded by mu: by worker number; nil if it was never asked for
}

// New returns Keys without sketches.
func New() *Keys { return &Keys{seed: maphash.MakeSeed()} }

// Values returns k.Served, nil if k is nil.
func (k *Keys) Values() *Values {
	if k == nil {
		return nil
	}
	return k.Served
}

// Sketch returns the sketch of the worker with that number, nil if k is nil. Workers that follow one another with the
// same number share it.
func (k *Keys) Sketch(worker int) *Sketch {
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for len(k.sketches) <= worker {
		k.sketches = append(k.sketches, nil)
	}
	if k.sketches[worker] == nil {
		k.sketches[worker] = &Sketch{seed: k.seed, halfLife: HalfLife}
	}
	return k.sketches[worker]
}

// Sampler chooses which of a worker's keys are in its sample, and counts them in its Sketch. It belongs to the worker.
type Sampler struct {
	sketch *Sketch // nil: they are not counted
	left   int     // keys until the next one of the sample
	random uint64
	keys   [][]byte // scratch
}

// Sampler returns a sampler for s, which may be nil.
func (s *Sketch) Sampler() Sampler {
	return Sampler{sketch: s, random: 0x9e3779b97f4a7c15}
}

// Skips reports whether none of the next n keys is in the sample. Otherwise Take must follow.
func (s *Sampler) Skips(n int) bool {
	s.left -= n
	return s.left >= 0
}

// Take returns those of n keys, which are separated by blanks, that are in the sample: the one at which left fell below
// 0, and later ones by chance. It counts them at now, ns. They are valid until the next Take.
func (s *Sampler) Take(keys []byte, n int, now int64) [][]byte {
	s.keys = s.keys[:0]
	at := n + s.left // index of the next key of the sample
	for i := 0; s.left < 0; i++ {
		key, rest, _ := bytes.Cut(keys, []byte(" "))
		keys = rest
		if i < at {
			continue
		}
		if s.sketch != nil {
			s.sketch.Count(key, now)
		}
		s.keys = append(s.keys, key)
		gap := s.gap()
		at += gap
		s.left += gap
	}
	return s.keys
}

// gap returns the distance to the next key of the sample: 1 to twice the mean, so that no regular pattern of requests
// hides a key.
func (s *Sampler) gap() int {
	s.random ^= s.random << 13
	s.random ^= s.random >> 7
	s.random ^= s.random << 17
	return 1 + int(s.random%(2*SampleEvery-1))
}

// Sketch counts the keys of one worker, or prefixes. Any goroutine may use it.
type Sketch struct {
	// Static.
	seed     maphash.Seed
	halfLife time.Duration

	mu     sync.Mutex // guards all below; held for some 100 ns
	halved int64      // when counts were halved last, ns
	total  uint64     // weight of all keys added
	used   int        // number of counters in use
	// By counter. In counts, up to over may belong to other keys.
	hashes, counts, over [Counters]uint64
	// Counters of them, made when the first key is added: many workers are stand-ins that never serve one
	keys []name
}

// name is a key.
type name struct {
	size uint8
	text [maxKey]byte
}

func (n *name) bytes() []byte { return n.text[:n.size] }

// NewSketch returns a sketch whose counts are halved every halfLife.
func NewSketch(halfLife time.Duration) *Sketch {
	return &Sketch{seed: maphash.MakeSeed(), halfLife: halfLife}
}

// weight is how much an added key counts. It is large because counts are halved.
const weight = 1 << 16

// Count counts key at now, ns. It returns the key's counter, below Counters; -1: key is empty or too long to be
// counted. replaced: the counter was not the key's before.
func (s *Sketch) Count(key []byte, now int64) (at int, replaced bool) {
	if len(key) == 0 || len(key) > maxKey {
		return -1, false
	}
	hash := maphash.Bytes(s.seed, key)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.halve(now)
	if s.keys == nil {
		s.keys = make([]name, Counters)
	}
	s.total += weight
	at = s.find(hash, key)
	if replaced = at < 0; replaced {
		at = s.replace()
		s.hashes[at] = hash
		s.keys[at].size = uint8(copy(s.keys[at].text[:], key))
	}
	s.counts[at] += weight
	return at, replaced
}

// Find returns the counter of key; -1: it has none.
func (s *Sketch) Find(key []byte) (at int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.find(maphash.Bytes(s.seed, key), key)
}

// Counted returns the keys that have counters, by counter.
func (s *Sketch) Counted() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := make([]string, s.used)
	for i := range keys {
		keys[i] = string(s.keys[i].bytes())
	}
	return keys
}

// find returns the counter of key, -1 if it has none; mu is held.
func (s *Sketch) find(hash uint64, key []byte) int {
	for i, h := range s.hashes[:s.used] {
		if h == hash && string(s.keys[i].bytes()) == string(key) {
			return i
		}
	}
	return -1
}

// replace returns the counter for a new key, with the count that may belong to other keys; mu is held.
func (s *Sketch) replace() int {
	if s.used < Counters {
		s.used++
		return s.used - 1
	}
	least := slices.Min(s.counts[:])
	at := slices.Index(s.counts[:], least)
	s.over[at] = least
	return at
}

// halve halves the counts once for each half-life that has passed at now, ns; mu is held.
func (s *Sketch) halve(now int64) {
	if s.halved == 0 {
		s.halved = now
	}
	lives := (now - s.halved) / int64(s.halfLife)
	if lives <= 0 {
		return
	}
	s.halved += lives * int64(s.halfLife)
	shift := min(lives, 63)
	s.total >>= shift
	for i := range s.used {
		s.counts[i] >>= shift
		s.over[i] >>= shift
	}
}

// Key is one of the keys that are asked for most.
type Key struct {
	// Name is the key. If names must not be shown it is "#" and the key's hash, which is the same in every report of
	// this process.
	Name string `json:"name"`
	// Share is the key's part of all keys that were asked for, 0 to 1. Apart from sampling error it is a lower bound.
	Share float64 `json:"share"`
	// Servers are the servers that hold it.
	Servers []string `json:"servers"`

	key string
}

// Report says which keys are asked for most.
type Report struct {
	// Sampled is the number of keys in the sample, weighted by age.
	Sampled float64 `json:"sampled"`
	// Top1, Top10 and Top100 are the shares of that many keys together.
	Top1   float64 `json:"top1"`
	Top10  float64 `json:"top10"`
	Top100 float64 `json:"top100"`
	// Served1, Served10 and Served100 are the parts of all keys asked for that are among these keys and were answered
	// from memory.
	Served1   float64 `json:"served1"`
	Served10  float64 `json:"served10"`
	Served100 float64 `json:"served100"`
	Keys      []Key   `json:"keys"` // the hottest first
	// Hottest is, by server, the largest part of its requests that one key has, 0 to 1. It assumes that the requests
	// for a key are spread evenly over its servers, and those for the keys that are not counted over all servers.
	Hottest map[string]float64 `json:"hottest"`
}

// leastSample is the minimum number of sampled keys for a report.
const leastSample = 100

// Report returns at most n keys at the time now, ns. names: their names are shown. servers are all servers, and of
// returns those of a key.
func (k *Keys) Report(n int, names bool, now int64, servers []string, of func(key []byte) []string) Report {
	r := Report{Keys: []Key{}, Hottest: make(map[string]float64, len(servers))}
	for _, s := range servers {
		r.Hottest[s] = 0
	}
	if k == nil {
		return r
	}
	k.mu.Lock()
	sketches := slices.Clone(k.sketches)
	k.mu.Unlock()
	sums, served := map[string]uint64{}, map[string]uint64{}
	var total uint64
	if k.Served != nil {
		total = k.Served.asked.addTo(served, now)
		maps.Copy(sums, served)
	}
	for _, s := range sketches {
		if s != nil {
			total += s.addTo(sums, now)
		}
	}
	r.Sampled = float64(total) / weight
	if r.Sampled < leastSample {
		return r
	}
	keys := make([]Key, 0, len(sums))
	for key, sum := range sums {
		keys = append(keys, Key{key: key, Share: float64(sum) / float64(total)})
	}
	slices.SortFunc(keys, func(a, b Key) int {
		return cmp.Or(cmp.Compare(b.Share, a.Share), strings.Compare(a.key, b.key))
	})
	for i, key := range keys {
		keys[i].Servers = of([]byte(key.key))
		for _, top := range []struct {
			keys          int
			share, served *float64
		}{{1, &r.Top1, &r.Served1}, {10, &r.Top10, &r.Served10}, {100, &r.Top100, &r.Served100}} {
			if i < top.keys {
				*top.share += key.Share
				*top.served += float64(served[key.key]) / float64(total)
			}
		}
	}
	r.spread(keys, servers)
	r.Keys = keys[:min(n, len(keys))]
	for i := range r.Keys {
		key := &r.Keys[i]
		if key.Name = key.key; !names {
			key.Name = "#" + strconv.FormatUint(maphash.String(k.seed, key.key), 16)
		}
	}
	return r
}

// spread sets Hottest.
func (r *Report) spread(keys []Key, servers []string) {
	rest := 1.0 // part of all requests that is for keys that are not counted
	loads, most := map[string]float64{}, map[string]float64{}
	for i := range keys {
		rest -= keys[i].Share
		for _, s := range keys[i].Servers {
			load := keys[i].Share / float64(len(keys[i].Servers))
			loads[s] += load
			most[s] = max(most[s], load)
		}
	}
	for _, s := range servers {
		if load := loads[s] + max(rest, 0)/float64(len(servers)); load > 0 {
			r.Hottest[s] = most[s] / load
		}
	}
}

// addTo adds to sums the count that each key has for certain at the time now, and returns the total.
func (s *Sketch) addTo(sums map[string]uint64, now int64) (total uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.halve(now)
	for i := range s.used {
		if s.counts[i] > s.over[i] {
			sums[string(s.keys[i].bytes())] += s.counts[i] - s.over[i]
		}
	}
	return s.total
}
