package plot

import (
	"math"
	"strconv"
	"strings"
)

// Unit is the unit of an axis's values.
type Unit struct {
	name   string
	scales []scale // ascending; none: values are shown as they are
}

// scale is a unit with its prefix, such as ms.
type scale struct {
	factor float64 // in base units
	symbol string
}

var (
	// None is a plain number.
	None = Unit{}
	// Seconds is a time.
	Seconds = Unit{name: "s", scales: []scale{{1e-9, "ns"}, {1e-6, "µs"}, {1e-3, "ms"}, {1, "s"}}}
	// OpsPerSecond is a rate of operations.
	OpsPerSecond = Unit{name: "ops/s", scales: []scale{{1, "ops/s"}, {1e3, "kops/s"}, {1e6, "Mops/s"}}}
	// Bytes is an amount of data.
	Bytes = Unit{name: "B", scales: []scale{{1, "B"}, {1e3, "kB"}, {1e6, "MB"}, {1e9, "GB"}}}
	// BytesPerSecond is a bandwidth.
	BytesPerSecond = Unit{name: "B/s", scales: []scale{{1, "B/s"}, {1e3, "kB/s"}, {1e6, "MB/s"}, {1e9, "GB/s"}}}
	// Ratio is a share, 0..1, shown in percent.
	Ratio = Unit{name: "%", scales: []scale{{0.01, "%"}}}
	// Cores is processor time per time.
	Cores = Unit{name: "cores"}
)

// units are the units by their symbols in records.
var units = map[string]Unit{
	"s": Seconds, "1/s": OpsPerSecond, "B": Bytes, "B/s": BytesPerSecond, "ratio": Ratio,
	"cores": Cores,
}

// UnitOf returns the unit that has this symbol in records; None for any other symbol.
func UnitOf(symbol string) Unit { return units[symbol] }

// scaleFor returns the scale in which numbers up to greatest are short.
func (u Unit) scaleFor(greatest float64) scale {
	if len(u.scales) == 0 {
		return scale{factor: 1, symbol: u.name}
	}
	best := u.scales[0]
	if u.name == Seconds.name && greatest == 0 {
		return u.scales[len(u.scales)-1]
	}
	for _, s := range u.scales {
		if greatest >= s.factor*0.9999 {
			best = s
		}
	}
	return best
}

// Format returns a value with three digits and its unit.
func (u Unit) Format(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "–"
	}
	s := u.scaleFor(math.Abs(v))
	text := digits(v / s.factor)
	if s.symbol == "" {
		return text
	}
	return text + " " + s.symbol
}

// digits returns v with about three digits.
func digits(v float64) string {
	switch size := math.Abs(v); {
	case size == 0:
		return "0"
	case size >= 1e6 || size < 0.9995:
		return strconv.FormatFloat(v, 'g', 3, 64)
	case size >= 99.95:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case size >= 9.995:
		return strconv.FormatFloat(v, 'f', 1, 64)
	default:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
}

// withUnit returns a label followed by the unit of its numbers.
func withUnit(label, symbol string) string {
	switch {
	case symbol == "":
		return label
	case label == "":
		return symbol
	default:
		return strings.TrimSpace(label) + " (" + symbol + ")"
	}
}
