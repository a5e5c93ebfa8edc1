// Package hotkeys finds the keys that are asked for most, in bounded memory.
//
// Each worker counts a sample of the keys that it serves, by Space-Saving (Metwally, Agrawal and El Abbadi: Efficient Computation of
// Frequent and Top-k Elements in Data Streams, 2005): a key that has more than 1/Counters of a worker's sample is among its counters. Counts are
// halved every HalfLife, so that they are those of the last minute or so.
//
// Values are values with which readers answer, if they are to. Which they are does not depend on the sample.
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
	// HalfLife is in how much time the weight of a request falls to a half.
	HalfLife = 10 * time.Second
	// sampleEvery is the mean number of keys from one that is counted to the next.
	sampleEvery = 64
	// maxKey is the length of the longest key, bytes.
	maxKey = 250
)

// Mode says what is done about hot keys.
type Mode uint8

// The modes.
const (
	Detect Mode = iota // they are counted and shown
	Off                // nothing
	Serve              // they are counted and shown, and readers answer with their values; see Values
)

// ModeNames are the modes' names.
var ModeNames = enum.New[Mode]("mode of hot keys", "detect", "off", "serve")

func (m Mode) String() string { return ModeNames.Of(m) }

// Keys are the sketches of all workers.
type Keys struct {
	seed maphash.Seed

	// Served are the values that readers answer with; nil: none are kept. Static after construction.
	Served *Values

	mu       sync.Mutex
	sketches []*Sketch // guarded by mu: by the worker's number, nil where nobody asked for it
}

// New returns Keys without a sketch.
func New() *Keys { return &Keys{seed: maphash.MakeSeed()} }

// Values returns k.Served, nil if k is nil.
func (k *Keys) Values() *Values {
	if k == nil {
		return nil
	}
	return k.Served
}

// Sketch returns the sketch of the worker of this number, nil if k is nil. Workers of the same number that follow one another share it.
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
		k.sketches[worker] = &Sketch{seed: k.seed}
	}
	return k.sketches[worker]
}

// Sampler chooses which of a worker's keys are counted, and tells its Sketch. It belongs to the worker.
type Sampler struct {
	sketch *Sketch // nil: nothing is counted
	left   int     // keys until the next that is counted
	random uint64
}

// Sampler returns a sampler for s, which may be nil.
func (s *Sketch) Sampler() Sampler {
	return Sampler{sketch: s, random: 0x9e3779b97f4a7c15}
}

// Saw counts some of n keys, which blanks separate. now is in ns.
func (s *Sampler) Saw(keys []byte, n int, now int64) {
	s.left -= n
	if s.left >= 0 || s.sketch == nil {
		return
	}
	s.count(keys, n, now)
}

// count counts the key at which Saw's count fell below 0, and those that follow by chance.
func (s *Sampler) count(keys []byte, n int, now int64) {
	at := n + s.left // of the next one that is counted, from 0
	for i := 0; s.left < 0; i++ {
		key, rest, _ := bytes.Cut(keys, []byte(" "))
		keys = rest
		if i < at {
			continue
		}
		s.sketch.add(key, now)
		gap := s.gap()
		at += gap
		s.left += gap
	}
}

// gap returns how many keys on the next one is counted: 1 to twice the mean, so that no rhythm of requests hides a key.
func (s *Sampler) gap() int {
	s.random ^= s.random << 13
	s.random ^= s.random >> 7
	s.random ^= s.random << 17
	return 1 + int(s.random%(2*sampleEvery-1))
}

// Sketch counts the keys of one worker. Its worker adds to it, whoever wants a report reads it.
type Sketch struct {
	seed maphash.Seed // static

	mu     sync.Mutex // guards all below; held for some 100 ns
	halved int64      // when counts were halved last, ns
	total  uint64     // of what was added
	used   int        // counters in use
	// By counter. Of counts, up to over may be other keys'.
	hashes, counts, over [Counters]uint64
	keys                 []name // Counters of them, from the first key on: many workers are stand-ins that never serve one
}

// name is a key.
type name struct {
	size uint8
	text [maxKey]byte
}

func (n *name) bytes() []byte { return n.text[:n.size] }

// weight is what an added key counts: a multiple of 1, because counts are halved.
const weight = 1 << 16

func (s *Sketch) add(key []byte, now int64) {
	if len(key) == 0 || len(key) > maxKey {
		return
	}
	hash := maphash.Bytes(s.seed, key)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.halve(now)
	if s.keys == nil {
		s.keys = make([]name, Counters)
	}
	s.total += weight
	at := s.find(hash, key)
	if at < 0 {
		at = s.replace()
		s.hashes[at] = hash
		s.keys[at].size = uint8(copy(s.keys[at].text[:], key))
	}
	s.counts[at] += weight
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

// replace returns the counter that a new key gets, with what may be others' in it; mu is held.
func (s *Sketch) replace() int {
	if s.used < Counters {
		s.used++
		return s.used - 1
	}
	at, least := 0, s.counts[0]
	for i := range s.counts {
		if n := s.counts[i]; n < least {
			at, least = i, n
		}
	}
	s.over[at] = least
	return at
}

// halve halves the counts for each HalfLife that is over at now, ns; mu is held.
func (s *Sketch) halve(now int64) {
	if s.halved == 0 {
		s.halved = now
	}
	lives := (now - s.halved) / int64(HalfLife)
	if lives <= 0 {
		return
	}
	s.halved += lives * int64(HalfLife)
	shift := min(lives, 63)
	s.total >>= shift
	for i := range s.used {
		s.counts[i] >>= shift
		s.over[i] >>= shift
	}
}

// Key is one of the keys that are asked for most.
type Key struct {
	// Name is the key, or, unless names may be shown, "#" and its hash, which is the same in every report of this process.
	Name string `json:"name"`
	// Share is the part of all keys asked for that is this one, 0 to 1: at least that, but for chance.
	Share float64 `json:"share"`
	// Servers are those that hold it; the caller fills them in.
	Servers []string `json:"servers"`

	key string
}

// Report is which keys are asked for most.
type Report struct {
	// Sampled is how many keys the shares are from, weighted by age.
	Sampled float64 `json:"sampled"`
	// Top1, Top10 and Top100 are the shares of so many keys together.
	Top1   float64 `json:"top1"`
	Top10  float64 `json:"top10"`
	Top100 float64 `json:"top100"`
	// Served1, Served10 and Served100 are the parts of all keys asked for that are one of these and were answered from memory.
	Served1   float64 `json:"served1"`
	Served10  float64 `json:"served10"`
	Served100 float64 `json:"served100"`
	Keys      []Key   `json:"keys"` // the hottest first
	// Hottest is by server the largest part of its requests that one key has, 0 to 1, if the requests for a key are spread evenly over
	// its servers, and those for the keys that are not counted over all servers.
	Hottest map[string]float64 `json:"hottest"`
}

// leastSample is how many sampled keys a report needs; fewer say nothing.
const leastSample = 100

// Report returns at most n keys at the time now, ns. names: with their names. servers are all, of returns those of a key.
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
	slices.SortFunc(keys, func(a, b Key) int { return cmp.Or(cmp.Compare(b.Share, a.Share), strings.Compare(a.key, b.key)) })
	for i, key := range keys {
		hot := float64(served[key.key]) / float64(total)
		if i < 1 {
			r.Top1 += key.Share
			r.Served1 += hot
		}
		if i < 10 {
			r.Top10 += key.Share
			r.Served10 += hot
		}
		if i < 100 {
			r.Top100 += key.Share
			r.Served100 += hot
		}
	}
	for i := range keys {
		keys[i].Servers = of([]byte(keys[i].key))
	}
	r.spread(keys, servers)
	r.Keys = keys[:min(n, len(keys))]
	for i := range r.Keys {
		one := &r.Keys[i]
		if one.Name = one.key; !names {
			one.Name = "#" + strconv.FormatUint(maphash.String(k.seed, one.key), 16)
		}
	}
	return r
}

// spread fills in Hottest.
func (r *Report) spread(keys []Key, servers []string) {
	rest := 1.0 // of all requests, those for keys that are not counted
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

// addTo adds what each key has for certain to sums, and returns the total, at the time now.
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
