package spell

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNumbersAreFormattedForPeople(t *testing.T) {
	for ns, want := range map[float64]string{
		0: "–", 12: "0.01 µs", 1234: "1.23 µs", 9996: "10.0 µs", 99_960: "100 µs", 999_499: "999 µs",
		999_500:    "1.00 ms",
		12_345_678: "12.3 ms", 999_500_000: "1.00 s", 123_400_000_000: "123 s",
	} {
		require.Equal(t, want, Time(ns), "%v ns", ns)
	}
	for v, want := range map[float64]string{
		0: "0", 0.6: "1", 999: "999", 1000: "1,000", -100: "-100", -1234: "-1,234",
		1234567.4: "1,234,567",
	} {
		require.Equal(t, want, Count(v))
	}
}
