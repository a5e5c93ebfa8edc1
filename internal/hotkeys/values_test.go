package hotkeys

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
)

// get returns the reply to a get of key, "" if there is none, and wanted.
func get(v *Values, key string, now int64) (reply string, wanted uint64) {
	text, wanted, _ := v.Append([]byte{}, []byte(key), Plain, now)
	return string(text), wanted
}

// served returns the data of the reply to a get of key, "" if there is none.
func served(v *Values, key string, now int64) string {
	reply, _ := get(v, key, now)
	if lines := strings.Split(reply, "\r\n"); len(lines) > 1 {
		return lines[1]
	}
	return ""
}

// replyOf returns the reply to a get of key with data.
func replyOf(key, data string) []byte {
	return fmt.Appendf(nil, "VALUE %s 0 %d\r\n%s\r\nEND\r\n", key, len(data), data)
}

// fill keeps data for key, as asked for at asked.
func fill(t *testing.T, v *Values, key, data string, asked int64) {
	t.Helper()
	wanted := v.hash([]byte(key))
	token, ok := v.Token(wanted)
	require.True(t, ok)
	v.Put(wanted, token, []byte(key), replyOf(key, data), asked, time.Hour)
}

func TestAValueCountsUntilItIsTooOldOrItsKeyIsWritten(t *testing.T) {
	v := NewValues(100, 1<<20)
	fill(t, v, "hot", "x", 1000)
	assert.Equal(t, "x", served(v, "hot", 1099))
	assert.Empty(t, served(v, "hot", 1100))
	assert.Empty(t, served(v, "cold", 1000))
	wanted := v.hash([]byte("hot"))
	before, _ := v.Token(wanted)
	w := v.Begin([]byte("hot"))
	assert.Empty(t, served(v, "hot", 1001))
	_, ok := v.Token(wanted)
	assert.False(t, ok, "a write is in progress")
	v.End(&w)
	assert.Empty(t, served(v, "hot", 1002), "the value is older than the write")
	v.Put(wanted, before, []byte("hot"), replyOf("hot", "old"), 1002, time.Hour)
	assert.Empty(t, served(v, "hot", 1002), "it was asked for before the write")
	fill(t, v, "hot", "y", 1003)
	assert.Equal(t, "y", served(v, "hot", 1003))
	v.SetAge(200)
	assert.Empty(t, served(v, "hot", 1003), "it was fetched under another age")
	v.Put(wanted, v.now(wanted), []byte("hot"), replyOf("hot", "z"), 1004, 50)
	assert.Equal(t, "z", served(v, "hot", 1053))
	assert.Empty(t, served(v, "hot", 1054), "the item expires before the value is too old")
}

func TestAReplyIsWantedIfThereWereGetsShortlyBefore(t *testing.T) {
	v := NewValues(100, 1<<20)
	for _, at := range []struct {
		now    int64
		wanted bool
	}{
		{1000, false},
		{1001, false},
		{1002, true},
		{1049, true},
		{1050, false},
		{1051, false},
		{1100, false},
		{1149, false},
		{1149, true},
	} {
		_, wanted := get(v, "hot", at.now)
		assert.Equal(t, at.wanted, wanted != 0, at.now)
	}
	_, wanted := get(v, "cold", 1149)
	assert.Zero(t, wanted)
}

// want asks for key until its reply is wanted.
func want(t *testing.T, v *Values, key string, now int64) (wanted uint64) {
	t.Helper()
	for range enoughGets {
		require.Zero(t, wanted)
		_, wanted = get(v, key, now)
	}
	require.NotZero(t, wanted)
	return wanted
}

func TestAValueThatWasServedOftenEnoughIsWantedAgainAtOnce(t *testing.T) {
	v := NewValues(100, 1<<20)
	for served := range 4 {
		fill(t, v, "hot", "x", int64(served)*1000)
		for range served {
			get(v, "hot", int64(served)*1000+1)
		}
		_, wanted := get(v, "hot", int64(served)*1000+500)
		assert.Equal(t, served >= 2, wanted != 0, "%d times", served)
	}
}

func TestOneReaderRefreshesAnOftenServedValueBeforeItIsTooOld(t *testing.T) {
	v := NewValues(800, 1<<20)
	fill(t, v, "hot", "x", 1000)
	for range refreshHits {
		require.Equal(t, "x", served(v, "hot", 1699))
	}
	require.Equal(t, "x", served(v, "hot", 1699))
	reply, wanted := get(v, "hot", 1700)
	assert.Empty(t, reply)
	assert.NotZero(t, wanted)
	assert.Equal(t, "x", served(v, "hot", 1700), "one refresh is enough")
	fill(t, v, "hot", "y", 1701)
	assert.Equal(t, "y", served(v, "hot", 2401), "it is not served often")
}

func TestAReplyThatCannotBeKeptIsNotWantedForAnAgeOrUntilItsKeyIsWritten(t *testing.T) {
	for name, reply := range map[string][]byte{
		"large": replyOf("hot", strings.Repeat("x", MaxServed)), "missing": nil,
		"expiring": replyOf("hot", "x"),
	} {
		v := NewValues(100, 4<<20)
		wanted := want(t, v, "hot", 1001)
		token, _ := v.Token(wanted)
		life := time.Hour
		if name == "expiring" {
			life = 0
		}
		v.Put(wanted, token, []byte("hot"), reply, 1001, life)
		for range enoughGets {
			reply, wanted := get(v, "hot", 1100)
			assert.Empty(t, reply, name)
			assert.Zero(t, wanted, name)
		}
		wanted = want(t, v, "hot", 1101)
		token, _ = v.Token(wanted)
		v.Put(wanted, token, []byte("hot"), nil, 1102, 0)
		w := v.Begin([]byte("hot"))
		v.End(&w)
		_, wanted = get(v, "hot", 1103)
		assert.NotZero(t, wanted, name)
	}
}

// keep keeps data as the value that w has stored.
func keep(v *Values, w *Write, key, data string, asked int64, life time.Duration) {
	v.Keep(w, Plain, asked, life, []byte("VALUE "), fmt.Appendf(nil, "%s 0 %d\r\n%s\r\nEND\r\n", key, len(data), data))
	v.End(w)
}

func TestTheValueOfASetReplacesAValueThatWasServed(t *testing.T) {
	v := NewValues(100, 1<<20)
	fill(t, v, "hot", "x", 1000)
	w := v.Begin([]byte("hot"))
	keep(v, &w, "hot", "y", 1001, time.Hour)
	assert.Empty(t, served(v, "hot", 1001), "no value of it was served")

	fill(t, v, "hot", "x", 1000)
	require.Equal(t, "x", served(v, "hot", 1001))
	first, second := v.Begin([]byte("hot")), v.Begin([]byte("hot"))
	keep(v, &second, "hot", "2", 1002, time.Hour)
	assert.Empty(t, served(v, "hot", 1003), "the first write may take effect after the second")
	keep(v, &first, "hot", "1", 1002, time.Hour)
	assert.Empty(t, served(v, "hot", 1003), "the second write may have taken effect after the first")

	v.BeginFlush()
	w = v.Begin([]byte("hot"))
	v.EndFlush(0, 0, time.Time{})
	keep(v, &w, "hot", "y", 1004, time.Hour)
	assert.Empty(t, served(v, "hot", 1004), "a flush was in progress")

	w = v.Begin([]byte("hot"))
	keep(v, &w, "hot", "y", 1005, 50)
	assert.Equal(t, "VALUE hot 0 1\r\ny\r\nEND\r\n", func() string { reply, _ := get(v, "hot", 1054); return reply }())
	assert.Empty(t, served(v, "hot", 1055), "the item has expired")
	w = v.Begin([]byte("cold"))
	keep(v, &w, "cold", "y", 1005, time.Hour)
	assert.Empty(t, served(v, "cold", 1005), "it was not served")
}

func TestAFlushInvalidatesAllValuesAndADelayedOnePausesServing(t *testing.T) {
	v := NewValues(time.Second, 1<<20)
	fill(t, v, "hot", "x", 0)
	v.BeginFlush()
	assert.Empty(t, served(v, "hot", 1))
	_, ok := v.Token(v.hash([]byte("hot")))
	assert.False(t, ok)
	v.EndFlush(0, 0, time.Time{})
	assert.Empty(t, served(v, "hot", 1))
	fill(t, v, "hot", "y", 2)
	assert.NotEmpty(t, served(v, "hot", 2))

	const date = 2_000_000_000
	for exptime, until := range map[int32]int64{10: 12, 2000000030: 30 + 60, 1999999000: 0, -1: 1} {
		v := NewValues(time.Second, 1<<20)
		v.BeginFlush()
		v.EndFlush(exptime, 0, time.Unix(date, 0))
		for _, seconds := range []int64{1, until - 1, until, until + 1} {
			if seconds < 0 {
				continue
			}
			now := seconds * int64(time.Second)
			fill(t, v, "hot", "z", now)
			assert.Equal(t, seconds >= until, served(v, "hot", now) != "", "%s: %d s", exptime, seconds)
		}
	}
}

func TestAReportShowsHowMuchIsAnsweredFromMemory(t *testing.T) {
	k := New()
	k.Served = NewValues(time.Second, 1<<20)
	worker, reader := k.Sketch(0).Sampler(), k.Served.Sampler()
	for range 20_000 {
		saw(&worker, []byte("hot"), 1, 1)
		saw(&worker, []byte("cold"), 1, 1)
		saw(&reader, []byte("hot"), 1, 1)
		saw(&reader, []byte("hot"), 1, 1)
	}
	r := k.Report(2, true, 1, nil, func([]byte) []string { return nil })
	assert.InDelta(t, 0.75, r.Top1, 0.05)
	assert.InDelta(t, 0.5, r.Served1, 0.05)
	assert.InDelta(t, 1, r.Top10, 1e-9)
	assert.Equal(t, r.Served1, r.Served10)
	assert.Equal(t, r.Served1, r.Served100)
}

// used returns the memory that values take, bytes, and checks the bookkeeping.
func used(t *testing.T, v *Values) (bytes int) {
	t.Helper()
	for i := range v.shards {
		s := &v.shards[i]
		require.LessOrEqual(t, s.used, v.room)
		sum := 0
		for at, e := range s.ring {
			require.Equal(t, at, e.at)
			require.Same(t, e, s.find(e.hash))
			sum += entrySize + cap(e.reply)
		}
		require.Equal(t, sum, s.used)
		bytes += sum
	}
	return bytes
}

func TestValuesStayWithinTheirMemoryAndServedOnesAreKept(t *testing.T) {
	const memory = 1 << 20
	v := NewValues(time.Hour, memory)
	fill(t, v, "hot", "hot", 1)
	for i := range 5_000 {
		key := fmt.Sprint("key-", i)
		fill(t, v, key, strings.Repeat("x", i*7919%3000), 1)
		if i%2 == 0 {
			fill(t, v, fmt.Sprint("key-", i/2), strings.Repeat("y", i%500), 1)
		}
		require.Equal(t, "hot", served(v, "hot", 2), "after %d others", i)
		if i%1000 == 0 {
			used(t, v)
		}
	}
	assert.Greater(t, used(t, v), memory/2)
	fill(t, v, "large", strings.Repeat("x", MaxServed-100), 1)
	assert.Empty(t, served(v, "large", 2), "it does not fit into a shard")
	assert.Equal(t, "hot", served(v, "hot", 2))
}

func TestAnsweringFromMemoryAllocatesNothing(t *testing.T) {
	v := NewValues(time.Second, 1<<20)
	key, reply := []byte("hot"), replyOf("hot", "abc")
	wanted := v.hash(key)
	fill(t, v, "hot", "abc", 1)
	dst, pieces := make([]byte, 0, 100), [2][]byte{[]byte("VALUE hot "), []byte("0 3\r\nabc\r\nEND\r\n")}
	i := 0
	other := []byte("other-0000")
	for range 20_000 { // until the memory is used up
		other[6], other[7], other[8], other[9] = byte('0'+i%10), byte('0'+i/10%10), byte('0'+i/100%10),
			byte('0'+i/1000%10)
		i++
		fill(t, v, string(other), "abc", 1)
	}
	assert.Zero(t, testing.AllocsPerRun(1000, func() {
		token, _ := v.Token(wanted)
		v.Put(wanted, token, key, reply, 1, time.Hour)
		if _, _, ok := v.Append(dst, key, Plain, 2); !ok {
			t.Fatal("it is not served")
		}
		w := v.Begin(key)
		v.Keep(&w, Plain, 1, time.Hour, pieces[0], pieces[1])
		v.End(&w)
		v.Put(wanted, v.now(wanted), key, nil, 1, 0)
		i++
		other[9] = byte('0' + i%10)
		hash := v.hash(other)
		v.Put(hash, v.now(hash), other, reply, 1, time.Hour)
		_, _, _ = v.Append(dst, []byte("cold"), Plain, 2)
	}))
}

// If a value counts for a time T, a key that is asked for at a rate r can be served for a part rT/(1+rT) of its gets:
// one get goes to a server, and rT follow.
func TestTheServedPartIsNearTheMaximumThatTheAgeAllows(t *testing.T) {
	mctest.RaceSkips(t, mctest.Computes)
	const keys, rate = 10_000, 75_000
	sums, names := make([]float64, keys), make([][]byte, keys)
	sum := 0.0
	for i := range keys {
		sum += math.Pow(float64(i+1), -0.99) // Zipf
		sums[i], names[i] = sum, fmt.Appendf(nil, "key-%d", i)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for age, seconds := range map[time.Duration]int{100 * time.Millisecond: 4, AgeAlone: 24} {
		possible, before := 0.0, 0.0
		for _, s := range sums {
			p := (s - before) / sum
			before = s
			possible += p * rate * p * age.Seconds() / (1 + rate*p*age.Seconds())
		}
		v := NewValues(age, 32<<20)
		dst, served := make([]byte, 0, 256), 0
		for i := range seconds * rate {
			key := names[sort.SearchFloat64s(sums, random.Float64()*sum)]
			now := int64(age)*10 + int64(i)*int64(time.Second)/rate
			_, wanted, ok := v.Append(dst, key, Plain, now)
			if ok && i >= seconds*rate/2 {
				served++
			}
			if wanted != 0 {
				v.Put(wanted, v.now(wanted), key, replyOf(string(key), "x"), now, time.Hour)
			}
		}
		share := float64(served) / float64(seconds*rate/2)
		t.Logf("age %v: %.3f served, %.3f possible", age, share, possible)
		assert.Greater(t, share, 0.8*possible, age)
	}
}

func TestFewRepliesAreWantedIfNoKeyIsHot(t *testing.T) {
	const keys, rate = 1_000_000, 75_000
	v := NewValues(100*time.Millisecond, 32<<20)
	random := rand.New(rand.NewPCG(1, 2))
	replies := 0
	for i := range rate {
		if _, wanted := get(v, fmt.Sprint(random.IntN(keys)),
			int64(time.Hour)+int64(i)*int64(time.Second)/rate); wanted != 0 {
			replies++
		}
	}
	assert.Less(t, replies, rate/30)
}
