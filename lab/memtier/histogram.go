package memtier

import (
	"fmt"

	"mcmw/lab/sample"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// microsecond is the unit of memtier's histograms, in seconds.
const microsecond = 1e-6

// decodeHistogram reads a compressed histogram of microseconds.
func decodeHistogram(text string) (sample.Histogram, error) {
	h, err := hdrhistogram.Decode([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("histogram: %w", err)
	}
	var bins sample.Histogram
	for _, bar := range h.Distribution() {
		if bar.Count > 0 {
			bins = append(bins, sample.Bin{
				Lower: float64(bar.From) * microsecond,
				Upper: float64(bar.To+1) * microsecond, Count: float64(bar.Count),
			})
		}
	}
	return bins, nil
}
