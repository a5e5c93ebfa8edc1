package hotkeys

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// saw lets s sample n keys.
func saw(s *Sampler, keys []byte, n int, now int64) {
	if !s.Skips(n) {
		s.Take(keys, n, now)
	}
}

func nowhere([]byte) []string { return nil }

// names returns the keys of a report.
func names(r Report) (list []string) {
	for _, k := range r.Keys {
		list = append(list, k.Name)
	}
	return list
}

func TestTheMostRequestedKeysAreFoundWithTheirShares(t *testing.T) {
	keys := New()
	rng := rand.New(rand.NewPCG(1, 2))
	samplers := []Sampler{keys.Sketch(0).Sampler(), keys.Sketch(3).Sampler()}
	const requests = 400_000
	for i := range requests {
		key := fmt.Sprintf("cold-%d", rng.IntN(100_000))
		switch p := rng.IntN(100); {
		case p < 20:
			key = "hot"
		case p < 25:
			key = "warm"
		}
		saw(&samplers[i%2], []byte(key), 1, int64(i))
	}
	r := keys.Report(2, true, requests, []string{"of-hot", "other"}, func(key []byte) []string {
		return []string{"of-" + string(key)}
	})
	require.Equal(t, []string{"hot", "warm"}, names(r))
	assert.Equal(t, []string{"of-hot"}, r.Keys[0].Servers)
	assert.InDelta(t, 0.20, r.Keys[0].Share, 0.02)
	assert.InDelta(t, 0.05, r.Keys[1].Share, 0.01)
	assert.Equal(t, r.Keys[0].Share, r.Top1)
	assert.InDelta(t, 0.20/(0.20+0.75/2), r.Hottest["of-hot"], 0.05)
	assert.Zero(t, r.Hottest["other"])
	assert.InDelta(t, 0.25, r.Top10, 0.03)
	assert.InDelta(t, requests/SampleEvery, r.Sampled, requests/SampleEvery/10.0)
}

func TestNoKeyIsHotIfAllAreRequestedEquallyOften(t *testing.T) {
	keys := New()
	s := keys.Sketch(0).Sampler()
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 400_000 {
		saw(&s, fmt.Appendf(nil, "key-%d", rng.IntN(10_000)), 1, int64(i))
	}
	r := keys.Report(5, true, 0, nil, nowhere)
	assert.Less(t, r.Top1, 0.002)
	assert.Less(t, r.Top100, 0.05)
}

func TestAllKeysOfARetrievalAreSampledEquallyOften(t *testing.T) {
	keys := New()
	s := keys.Sketch(0).Sampler()
	var list []string
	for i := range 24 {
		list = append(list, fmt.Sprintf("k%d", i))
	}
	line := []byte(strings.Join(list, " "))
	const requests = 40_000
	for range requests {
		saw(&s, line, len(list), 1)
	}
	r := keys.Report(100, true, 1, nil, nowhere)
	require.Len(t, r.Keys, len(list))
	for _, k := range r.Keys {
		assert.InDelta(t, 1.0/24, k.Share, 0.004, k.Name)
		assert.True(t, slices.Contains(list, k.Name), k.Name)
	}
}

func TestAKeyThatIsNotRequestedAnyMoreIsForgotten(t *testing.T) {
	keys := New()
	s := keys.Sketch(0).Sampler()
	for range 10_000 {
		saw(&s, []byte("then"), 1, 1)
	}
	later := 1 + 5*int64(HalfLife)
	for range 10_000 {
		saw(&s, []byte("now"), 1, later)
	}
	r := keys.Report(2, true, later, nil, nowhere)
	require.Equal(t, []string{"now", "then"}, names(r))
	assert.InDelta(t, 1.0/33, r.Keys[1].Share, 0.005)
	assert.Zero(t, keys.Report(2, true, later+100*int64(HalfLife), nil, nowhere).Sampled)
}

func TestNamesAreShownOnlyIfAllowed(t *testing.T) {
	keys := New()
	s := keys.Sketch(0).Sampler()
	for range 10_000 {
		saw(&s, []byte("secret"), 1, 1)
	}
	r := keys.Report(1, false, 1, nil, nowhere)
	require.Len(t, r.Keys, 1)
	assert.Regexp(t, `^#[0-9a-f]+$`, r.Keys[0].Name)
	assert.Equal(t, names(r), names(keys.Report(1, false, 1, nil, nowhere)))
}

func TestAReportNeedsEnoughRequests(t *testing.T) {
	keys := New()
	s := keys.Sketch(0).Sampler()
	for range 50 {
		saw(&s, []byte("k"), 1, 1)
	}
	assert.Empty(t, keys.Report(1, true, 1, nil, nowhere).Keys)
	assert.Empty(t, (*Keys)(nil).Report(1, true, 1, nil, nowhere).Keys)
}

func TestAReportHasAHottestShareForEveryServer(t *testing.T) {
	assert.Equal(t, map[string]float64{"a": 0, "b": 0},
		(*Keys)(nil).Report(1, true, 1, []string{"a", "b"}, nowhere).Hottest)
}

func TestWithoutASketchNothingIsCounted(t *testing.T) {
	s := (*Keys)(nil).Sketch(0).Sampler()
	for range 100 {
		saw(&s, []byte("k"), 1, 1)
	}
	assert.Nil(t, s.sketch)
}

func TestCountingAllocatesNothing(t *testing.T) {
	keys := New()
	s := keys.Sketch(0).Sampler()
	key := []byte("key-0000")
	i := 0
	assert.Zero(t, testing.AllocsPerRun(10_000, func() {
		i++
		key[4], key[5] = byte('0'+i%10), byte('0'+i/10%10)
		saw(&s, key, 1, int64(i)*int64(time.Second))
	}))
}

func BenchmarkSaw(b *testing.B) {
	keys := New()
	s := keys.Sketch(0).Sampler()
	list := make([][]byte, 4096)
	for i := range list {
		list[i] = fmt.Appendf(nil, "memtier-%d", i*2654435761%10_000_000)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		saw(&s, list[i%len(list)], 1, int64(i))
	}
}
