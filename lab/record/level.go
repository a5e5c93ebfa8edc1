package record

import (
	"cmp"
	"math"
	"strconv"
	"strings"
	"time"
)

// Level is the level of a factor: a number such as 64, a duration such as 10ms, a size such as 4KiB, a ratio such as
// 1:9, or a word.
type Level string

// AsDefault is the level of a setting that the program under test chooses itself.
const AsDefault Level = "default"

// sizes are the units of sizes, in bytes.
var sizes = []struct {
	unit  string
	bytes float64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}}

// Number returns the level in base units: a number as it is, a duration in seconds, a size in bytes. It returns false
// for ratios and words.
func (l Level) Number() (float64, bool) {
	if v, err := strconv.ParseFloat(string(l), 64); err == nil && !math.IsNaN(v) && !math.IsInf(v, 0) {
		return v, true
	}
	if d, err := time.ParseDuration(string(l)); err == nil {
		return d.Seconds(), true
	}
	for _, s := range sizes {
		if number, ok := strings.CutSuffix(string(l), s.unit); ok {
			v, known := Level(strings.TrimSpace(number)).Number()
			return v * s.bytes, known
		}
	}
	return 0, false
}

// Share returns the share of the first part of a ratio in the sum of all parts: 0.1 for 1:9 and for 1:8:1.
func (l Level) Share() (float64, bool) {
	sum, first := 0.0, 0.0
	parts := strings.Split(string(l), ":")
	for i, part := range parts {
		v, err := strconv.ParseFloat(part, 64)
		if err != nil || !(v >= 0) || math.IsInf(v, 0) {
			return 0, false
		}
		if i == 0 {
			first = v
		}
		sum += v
	}
	return first / sum, len(parts) > 1 && sum > 0
}

// CompareLevels orders the levels of a factor: first numbers, by size; then ratios, by the share of the first part;
// then words, alphabetically.
func CompareLevels(a, b string) int {
	kindA, x := Level(a).place()
	kindB, y := Level(b).place()
	return cmp.Or(cmp.Compare(kindA, kindB), cmp.Compare(x, y), cmp.Compare(a, b))
}

func (l Level) place() (kind int, x float64) {
	if v, ok := l.Number(); ok {
		return 0, v
	}
	if v, ok := l.Share(); ok {
		return 1, v
	}
	return 2, 0
}

// Number returns the level of a factor as a number in base units, and whether it is one. If the middleware chose the
// level itself, it is the metric of the same name that the middleware reported.
func (r Run) Number(factor string) (float64, bool) {
	level := Level(r.Factors[factor])
	if level == AsDefault {
		return r.Value(SourceMiddleware, factor)
	}
	return level.Number()
}
