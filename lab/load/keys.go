package load

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"strconv"
	"strings"
)

// KeyPattern says which keys requests use. The letters are those of memtier_benchmark.
type KeyPattern byte

// The patterns.
const (
	// Uniform draws all keys with equal probability.
	Uniform KeyPattern = 'R'
	// Sequential uses the keys in order; every connection begins with the first.
	Sequential KeyPattern = 'S'
	// Parallel uses the keys in order; every connection has a range of its own.
	Parallel KeyPattern = 'P'
	// Gaussian draws from a normal distribution around KeyMedian.
	Gaussian KeyPattern = 'G'
	// Zipf draws the key of rank k, KeyMin having rank 1, with a probability proportional to 1/k^ZipfExponent.
	Zipf KeyPattern = 'Z'
)

// keySpace draws keys. It is immutable; the state of a connection is in its keyState.
type keySpace struct {
	first, count uint64
	connections  int
	median, dev  float64
	zipf         *zipf // nil unless it is drawn from
}

// keyState is a connection's position in the sequence of its keys. SETs and GETs have separate ones, as with memtier.
type keyState struct {
	next, first, count uint64 // of sequential keys: the next key, and the range
}

func newKeySpace(o *Options) *keySpace {
	k := &keySpace{
		first: o.KeyMin, count: o.keyCount(), connections: o.Connections, median: o.KeyMedian,
		dev: o.KeyStdDev,
	}
	k.median = cmp.Or(k.median, float64(o.KeyMin)+float64(k.count-1)/2)
	k.dev = cmp.Or(k.dev, float64(k.count)/6)
	if o.SetKeys == Zipf || o.GetKeys == Zipf {
		k.zipf = newZipf(k.count, o.ZipfExponent)
	}
	return k
}

// state returns the initial state of connection id.
func (k *keySpace) state(p KeyPattern, id int) keyState {
	s := keyState{first: k.first, count: k.count}
	if p == Parallel {
		// The lengths of the ranges differ by at most one. With more connections than keys, connections share keys.
		n := uint64(k.connections)
		from, _ := bits.Div64(mul(k.count, uint64(id), n))
		to, _ := bits.Div64(mul(k.count, uint64(id)+1, n))
		s.first, s.count = k.first+min(from, k.count-1), max(to-from, 1)
	}
	s.next = s.first
	return s
}

// mul returns the arguments of Div64 for a*b/c, where b is at most c.
func mul(a, b, c uint64) (hi, lo, divisor uint64) {
	hi, lo = bits.Mul64(a, b)
	if hi >= c { // b is c
		return 0, a, 1
	}
	return hi, lo, c
}

func (k *keySpace) draw(p KeyPattern, s *keyState, rng *rand.PCG) uint64 {
	if p != Uniform {
		return k.drawUneven(p, s, rng)
	}
	offset, _ := bits.Mul64(rng.Uint64(), k.count)
	return k.first + offset
}

// drawUneven returns the next key of a pattern other than Uniform.
func (k *keySpace) drawUneven(p KeyPattern, s *keyState, rng *rand.PCG) uint64 {
	switch p {
	case Sequential, Parallel:
		key := s.next
		if s.next++; s.next == s.first+s.count {
			s.next = s.first
		}
		return key
	case Gaussian:
		for {
			x := math.Round(k.median + k.dev*rand.New(rng).NormFloat64())
			if x >= float64(k.first) && x <= float64(k.first+k.count-1) {
				return min(uint64(x), k.first+k.count-1)
			}
		}
	default:
		return k.first + k.zipf.draw(rng) - 1
	}
}

// uniform returns a number in [0, 1).
func uniform(rng *rand.PCG) float64 { return float64(rng.Uint64()>>11) / (1 << 53) }

// zipf draws ranks k from 1 to n with probabilities proportional to k^-s, s > 0, by rejection-inversion (W. Hörmann, G.
// Derflinger: Rejection-inversion to generate variates from monotone discrete distributions, ACM TOMACS 6(3), 1996): it
// inverts the integral of the hat x^-s and rejects where the hat is above the distribution. Its time does not depend on
// n. With
//
//	H(x) = (x^(1-s) - 1) / (1-s), log x for s = 1; H^-1(u) = (1 + u(1-s))^(1/(1-s)), e^u for s = 1
//
// u is drawn between H(n+1/2) and H(3/2)-1, k is H^-1(u) rounded, and k is accepted if u >= H(k+1/2) - k^-s.
type zipf struct {
	n         float64
	s         float64
	low, high float64 // of u
	sure      float64 // k is accepted without further checks up to this k - x: 2 - H^-1(H(5/2) - 2^-s)
}

func newZipf(n uint64, s float64) *zipf {
	z := &zipf{n: float64(n), s: s}
	z.low = z.integral(1.5) - 1
	z.high = z.integral(z.n + 0.5)
	z.sure = 2 - z.inverse(z.integral(2.5)-math.Pow(2, -s))
	return z
}

func (z *zipf) integral(x float64) float64 {
	log := math.Log(x)
	return log * expm1Over((1-z.s)*log)
}

func (z *zipf) inverse(u float64) float64 {
	t := max(u*(1-z.s), -1)
	return math.Exp(u * log1pOver(t))
}

func (z *zipf) draw(rng *rand.PCG) uint64 {
	for {
		u := z.high + uniform(rng)*(z.low-z.high)
		x := z.inverse(u)
		k := min(max(math.Floor(x+0.5), 1), z.n)
		if k-x <= z.sure || u >= z.integral(k+0.5)-math.Exp(-math.Log(k)*z.s) {
			return uint64(k)
		}
	}
}

// expm1Over returns (e^x - 1)/x, accurately also for small x.
func expm1Over(x float64) float64 {
	if math.Abs(x) > 1e-8 {
		return math.Expm1(x) / x
	}
	return 1 + x/2*(1+x/3)
}

// log1pOver returns log(1+x)/x, accurately also for small x.
func log1pOver(x float64) float64 {
	if math.Abs(x) > 1e-8 {
		return math.Log1p(x) / x
	}
	return 1 - x*(1/2.0-x/3)
}

// ParseKeyPattern sets the patterns of keys from "SETs:GETs": letters of R, S, P, G and Z. The median and the deviation
// can follow a G, as in G5000,100, and the exponent a Z, as in Z0.99.
func (o *Options) ParseKeyPattern(text string) error {
	sets, gets, ok := strings.Cut(text, ":")
	if !ok || !o.takePattern(sets, &o.SetKeys) || !o.takePattern(gets, &o.GetKeys) {
		return fmt.Errorf("key pattern %q: expected two letters such as R:Z, for SETs and for GETs: R (uniform), S "+
			"(sequential), P (sequential, each connection in its own range), G (Gaussian; GMEDIAN,DEVIATION) or Z "+
			"(Zipf; ZEXPONENT), with the same numbers above 0 for both", text)
	}
	return nil
}

// takePattern sets a pattern and the parameters of its distribution; false if the text is malformed, or the other
// pattern has other parameters.
func (o *Options) takePattern(text string, pattern *KeyPattern) bool {
	if text == "" {
		return false
	}
	*pattern = KeyPattern(text[0])
	parameters := map[KeyPattern][]*float64{Gaussian: {&o.KeyMedian, &o.KeyStdDev}, Zipf: {&o.ZipfExponent}}[*pattern]
	var numbers []string
	if text[1:] != "" {
		numbers = strings.Split(text[1:], ",")
	}
	if len(numbers) > len(parameters) {
		return false
	}
	for i, number := range numbers {
		if number == "" {
			continue
		}
		v, err := strconv.ParseFloat(number, 64)
		if err != nil || !(v > 0) || *parameters[i] != 0 && *parameters[i] != v {
			return false
		}
		*parameters[i] = v
	}
	return pattern.valid()
}

func (p KeyPattern) valid() bool {
	return p == Uniform || p == Sequential || p == Parallel || p == Gaussian || p == Zipf
}
