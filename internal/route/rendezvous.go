package route

import (
	"math"

	"github.com/cespare/xxhash/v2"
)

// rendezvous places keys by the highest random weight (Thaler and Ravishankar, 1998): every server has a score for a
// key, made from the hashes of both, and the servers with the highest scores hold it. So each server holds its share of
// any set of keys, up to chance. A server that joins takes its share evenly from the others, and no key moves between
// the others. It is immutable.
type rendezvous struct {
	seeds []uint64 // by server: the hash of its name
	// inverse is 1/weight by server; nil if all weights are equal, which saves the logarithms.
	inverse []float64
}

func newRendezvous(servers []Server) *rendezvous {
	r := &rendezvous{seeds: make([]uint64, len(servers))}
	inverse := make([]float64, len(servers))
	for i, s := range servers {
		r.seeds[i] = xxhash.Sum64String(s.Name)
		inverse[i] = 1 / float64(max(s.Weight, 1))
		if inverse[i] != inverse[0] {
			r.inverse = inverse
		}
	}
	return r
}

// first returns the server with the highest score for hash.
func (r *rendezvous) first(hash uint64) int {
	if r.inverse != nil {
		first, _ := r.below(hash, math.Inf(1), -1)
		return first
	}
	// The bits that score drops must be dropped here, too: both must find the same server.
	best, first := mix(hash^r.seeds[0])>>11, 0
	for i := 1; i < len(r.seeds); i++ {
		if score := mix(hash^r.seeds[i]) >> 11; score > best {
			best, first = score, i
		}
	}
	return first
}

// appendTo appends to dst the n servers with the highest scores for hash, the highest first.
func (r *rendezvous) appendTo(dst []Holder, hash uint64, n int) []Holder {
	score, last := math.Inf(1), -1
	for range n {
		last, score = r.below(hash, score, last)
		dst = append(dst, Holder{int32(last), settled})
	}
	return dst
}

// covers reports whether ok returns true for at least one of any n servers: each combination of n servers holds some
// key.
func (r *rendezvous) covers(ok func(server int) bool, n int) bool {
	without := 0
	for i := range r.seeds {
		if !ok(i) {
			without++
		}
	}
	return without < n
}

// below returns the server that follows the server last, which has score, in the order of decreasing scores. Among
// equal scores the server listed first comes first.
func (r *rendezvous) below(hash uint64, score float64, last int) (next int, nextScore float64) {
	next, nextScore = -1, math.Inf(-1)
	for i, seed := range r.seeds {
		s := r.score(hash, seed, i)
		if s > nextScore && (s < score || (s == score && i > last)) {
			next, nextScore = i, s
		}
	}
	return next, nextScore
}

// score is ln(u)/weight with u uniform in (0, 1): the probability that a server has the highest score is proportional
// to its weight. Without weights it is u itself, which gives the same order.
func (r *rendezvous) score(hash, seed uint64, server int) float64 {
	u := (float64(mix(hash^seed)>>11) + 0.5) / (1 << 53)
	if r.inverse == nil {
		return u
	}
	return math.Log(u) * r.inverse[server]
}

// mix is the finalizer of MurmurHash3: every bit of x changes every bit of the result with a probability of about one
// half.
func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
