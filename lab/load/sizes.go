package load

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Sizes are the sizes of values, bytes. With the zero value all values have Options.ValueSize.
type Sizes struct {
	// Min and Max are the bounds of the sizes. Without List and Distribution, sizes are drawn uniformly between them.
	Min, Max int
	// ByKey instead spreads the range evenly over the keys, from Min for the first to Max for the last.
	ByKey bool
	// List draws sizes by their weights.
	List []WeightedSize
	// Distribution draws from a continuous distribution; a size outside Min and Max is drawn again.
	Distribution Distribution
}

// WeightedSize is a size and its weight, relative to the others.
type WeightedSize struct {
	Size   int     `json:"size"`
	Weight float64 `json:"weight"`
}

// Distribution is a continuous distribution with parameters that depend on its kind. The zero value is no distribution.
//
//	exponential   mean A                         x = -A log(1-u)
//	normal        mean A, standard deviation B   x = A + B z
//	lognormal     of log x: mean A, deviation B  x = e^(A + B z)
//	pareto        location A, scale B, shape C   x = A + B ((1-u)^-C - 1)/C, generalised (for C = 0: A - B log(1-u))
//
// u is uniform in [0, 1), z normal with mean 0 and deviation 1. The sizes of values in Facebook's ETC pool are
// pareto:0,214.476,0.348238 (B. Atikoglu et al.: Workload analysis of a large-scale key-value store, SIGMETRICS 2012).
type Distribution struct {
	Kind    string
	A, B, C float64
}

// distributionParameters is the number of parameters of each kind.
var distributionParameters = map[string]int{"exponential": 1, "normal": 2, "lognormal": 2, "pareto": 3}

// draw returns a value, which can be negative.
func (d *Distribution) draw(rng *rand.PCG) float64 {
	switch d.Kind {
	case "exponential":
		return -d.A * math.Log1p(-uniform(rng))
	case "normal":
		return d.A + d.B*rand.New(rng).NormFloat64()
	case "lognormal":
		return math.Exp(d.A + d.B*rand.New(rng).NormFloat64())
	default:
		// (1-u)^-C = e^(C l)
		l := -math.Log1p(-uniform(rng))
		return d.A + d.B*l*expm1Over(d.C*l)
	}
}

// ParseDistribution parses "kind:parameter,...".
func ParseDistribution(text string) (Distribution, error) {
	kind, rest, _ := strings.Cut(text, ":")
	parameters := strings.Split(rest, ",")
	var values [3]float64
	expected, known := distributionParameters[kind]
	ok := known && len(parameters) == expected
	for i := 0; ok && i < len(parameters); i++ {
		var err error
		values[i], err = strconv.ParseFloat(parameters[i], 64)
		ok = err == nil && !math.IsNaN(values[i]) && !math.IsInf(values[i], 0)
	}
	if !ok {
		return Distribution{},
			fmt.Errorf("distribution %q: expected exponential:MEAN, normal:MEAN,DEVIATION, lognormal:MEAN,DEVIATION "+
				"(of the logarithm) "+
				"or pareto:LOCATION,SCALE,SHAPE", text)
	}
	return Distribution{Kind: kind, A: values[0], B: values[1], C: values[2]}, nil
}

// String returns the form that ParseDistribution reads, "" for the zero value.
func (d Distribution) String() string {
	var b strings.Builder
	b.WriteString(d.Kind)
	for i, value := range []float64{d.A, d.B, d.C}[:distributionParameters[d.Kind]] {
		b.WriteByte(":,"[min(i, 1)])
		b.WriteString(shortest(value))
	}
	return b.String()
}

// ParseSizeRange parses memtier's "MIN-MAX".
func ParseSizeRange(text string) (low, high int, err error) {
	before, after, _ := strings.Cut(text, "-")
	low, err1 := strconv.Atoi(before)
	high, err2 := strconv.Atoi(after)
	if err1 != nil || err2 != nil || low < 0 || high < low {
		return 0, 0, fmt.Errorf("range %q: expected MIN-MAX such as 32-4096", text)
	}
	return low, high, nil
}

// ParseSizes parses one size, which is fixed, or others:
//
//	32-4096                 uniform
//	32-4096/S               by key
//	64:9,4096:1             by weight
//	lognormal:5,1           by a distribution, of at most MaxItem bytes
//	lognormal:5,1/32-4096   within these bounds
func ParseSizes(text string) (fixed int, s Sizes, err error) {
	if fixed, err = strconv.Atoi(text); err == nil && fixed > 0 {
		return fixed, s, nil
	}
	sizes, of, divided := strings.Cut(text, "/")
	switch {
	case strings.ContainsFunc(sizes, unicode.IsLetter):
		s.Min, s.Max = 1, MaxItem
		if s.Distribution, err = ParseDistribution(sizes); err == nil && divided {
			s.Min, s.Max, err = ParseSizeRange(of)
		}
	case strings.Contains(text, ":"):
		s.List, err = parseSizeList(text)
	default:
		s.ByKey = divided
		if s.Min, s.Max, err = ParseSizeRange(sizes); divided && of != "S" {
			err = errors.New("expected S after the slash")
		}
	}
	if err != nil {
		return 0, s, fmt.Errorf("%q: %w; expected bytes above 0, MIN-MAX, SIZE:WEIGHT,... or a distribution", text, err)
	}
	return 0, s, nil
}

func parseSizeList(text string) (list []WeightedSize, err error) {
	for item := range strings.SplitSeq(text, ",") {
		before, after, _ := strings.Cut(item, ":")
		size, err1 := strconv.Atoi(before)
		weight, err2 := strconv.ParseFloat(after, 64)
		if err := cmp.Or(err1, err2); err != nil {
			return nil, err
		}
		list = append(list, WeightedSize{size, weight})
	}
	return list, nil
}

// fixed reports whether all values have the same size, Options.ValueSize.
func (s *Sizes) fixed() bool { return s.Max == 0 && len(s.List) == 0 }

// String describes the sizes, "" if they are fixed.
func (s *Sizes) String() string {
	switch {
	case s.fixed():
		return ""
	case len(s.List) > 0:
		var items []string
		for _, item := range s.List {
			items = append(items, fmt.Sprintf("%d:%g", item.Size, item.Weight))
		}
		return "list " + strings.Join(items, ",")
	case s.Distribution.Kind != "":
		return fmt.Sprintf("%v, %d-%d", s.Distribution, s.Min, s.Max)
	case s.ByKey:
		return fmt.Sprintf("%d-%d by key", s.Min, s.Max)
	default:
		return fmt.Sprintf("%d-%d", s.Min, s.Max)
	}
}

// maxRedraws is how often a size outside the bounds is drawn again before the nearest bound is used.
const maxRedraws = 100

func (s *Sizes) validate() error {
	if s.fixed() {
		if s.Distribution.Kind != "" || s.ByKey {
			return errors.New("value sizes by a distribution or by key: they require a range of sizes")
		}
		return nil
	}
	if s.Max != 0 && (s.Min < 1 || s.Max < s.Min || s.Max > maxValueSize) {
		return fmt.Errorf("value sizes %d to %d: expected 1 to %d, the smallest first", s.Min, s.Max, maxValueSize)
	}
	if len(s.List) > 0 && (s.Max != 0 || s.ByKey || s.Distribution.Kind != "") {
		return errors.New("value sizes by a list: it can't be combined with a range or a distribution")
	}
	if s.ByKey && s.Distribution.Kind != "" {
		return errors.New("value sizes by key: they can't be combined with a distribution")
	}
	var sum float64
	for _, item := range s.List {
		if item.Size < 1 || item.Size > maxValueSize || !(item.Weight >= 0) || math.IsInf(item.Weight, 0) {
			return fmt.Errorf("value size %d with the weight %g: expected sizes of 1 to %d and weights of at least 0",
				item.Size, item.Weight, maxValueSize)
		}
		sum += item.Weight
	}
	if len(s.List) > 0 && sum <= 0 {
		return errors.New("a list of value sizes: expected a weight above 0")
	}
	if d := s.Distribution; d.Kind != "" {
		if n, known := distributionParameters[d.Kind]; !known {
			return fmt.Errorf("value sizes by the distribution %q: expected exponential, normal, lognormal or pareto",
				d.Kind)
		} else if scale := []float64{d.A, d.B, d.B}[n-1]; !(scale > 0) {
			return fmt.Errorf("value sizes by %v: expected a spread above 0", d)
		}
	}
	return nil
}

// sizer draws the sizes of values. It is immutable.
type sizer struct {
	fixed       int // the size of all values; 0: they differ
	sizes       Sizes
	first, keys uint64
	sums        []float64 // cumulative sums of the list's weights
}

func newSizer(o *Options) *sizer {
	z := &sizer{sizes: o.Sizes, first: o.KeyMin, keys: o.keyCount()}
	if o.Sizes.fixed() {
		z.fixed = o.ValueSize
	}
	var sum float64
	for _, item := range o.Sizes.List {
		sum += item.Weight
		z.sums = append(z.sums, sum)
	}
	return z
}

// most returns the largest possible size.
func (z *sizer) most() int {
	most := max(z.fixed, z.sizes.Max)
	for _, item := range z.sizes.List {
		most = max(most, item.Size)
	}
	return most
}

// draw returns the size of a value to be stored under a key.
func (z *sizer) draw(key uint64, rng *rand.PCG) int {
	switch s := &z.sizes; {
	case z.fixed > 0:
		return z.fixed
	case z.sums != nil:
		at, _ := slices.BinarySearch(z.sums, uniform(rng)*z.sums[len(z.sums)-1])
		for z.sizes.List[at].Weight == 0 {
			at++ // 0 was drawn and the first size has no weight
		}
		return z.sizes.List[at].Size
	case s.Distribution.Kind != "":
		for range maxRedraws {
			if x := math.Round(s.Distribution.draw(rng)); x >= float64(s.Min) && x <= float64(s.Max) {
				return int(x)
			}
		}
		return min(max(int(math.Round(s.Distribution.draw(rng))), s.Min), s.Max)
	case s.ByKey:
		if z.keys == 1 {
			return s.Min
		}
		return s.Min + int(math.Round(float64(key-z.first)/float64(z.keys-1)*float64(s.Max-s.Min)))
	default:
		return s.Min + int(uniform(rng)*float64(s.Max-s.Min+1))
	}
}
