package history

import (
	"bufio"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAValueContainsItsKeyAndItsWriteAndMustBeComplete(t *testing.T) {
	for _, seq := range []uint64{1, 2, 49, 50, 299} {
		value := appendValue(nil, "key-1", seq)
		got, ok := numberOf("key-1", value, nil)
		assert.True(t, ok)
		assert.Equal(t, seq, got)
		for name, other := range map[string][]byte{
			"cut":              value[:len(value)-1],
			"longer":           append(value[:len(value):len(value)], 'x'),
			"of another key":   appendValue(nil, "key-2", seq),
			"with another end": append(value[:len(value)-1:len(value)-1], 'x'),
			"empty":            nil,
			"nonsense":         []byte("key-1|many|"),
		} {
			_, ok := numberOf("key-1", other, nil)
			assert.False(t, ok, name)
		}
	}
	assert.Len(t, appendValue(nil, "k", 50), 20_000)
}

func TestAReadIsJudgedByWhatWasAcknowledgedAndReadBeforeItWasSent(t *testing.T) {
	r := &record{key: "k"}
	judge := func(seq, floor uint64) verdict { return r.judge(appendValue(nil, "k", seq), floor, nil) }
	r.issued.Store(10)
	r.acked.Store(4)
	assert.EqualValues(t, 4, r.floor(time.Now(), 0))
	assert.Equal(t, right, judge(4, 4))
	assert.Equal(t, right, judge(9, 4), "a write can take effect before it is acknowledged")
	assert.Equal(t, stale, judge(3, 4))
	assert.EqualValues(t, 9, r.floor(time.Now(), 0), "later reads must not return an older value")
	assert.Equal(t, stale, judge(8, r.floor(time.Now(), 0)))
	assert.Equal(t, right, judge(8, 4), "this read was sent before")
	assert.Equal(t, wrong, judge(11, 4), "this write was never sent")
	assert.Equal(t, wrong, judge(7, 4), "this write is a deletion")
	assert.Equal(t, wrong, r.judge(appendValue(nil, "l", 4), 4, nil))
}

// A write that another middleware acknowledged may be invisible for the age of values in memory; one that the asked
// middleware acknowledged may not.
func TestAReadThroughAnotherMiddlewareMayBeAsOldAsValuesInMemory(t *testing.T) {
	const age = 100 * time.Millisecond
	start := time.Now()
	r := &record{key: "k", fleet: true, age: age}
	for i, addr := range []int{0, 1, 0} {
		r.acknowledge(uint64(i+1), start.Add(time.Duration(i)*10*time.Millisecond), addr)
	}
	for _, want := range []struct {
		after time.Duration
		addr  int
		floor uint64
	}{
		{age - 1, 0, 3},
		{age - 1, 1, 2},
		{age - 1, 2, 0},
		{age, 2, 1},
		{age, 1, 2},
		{age + 20*time.Millisecond - 1, 1, 2},
		{age + 20*time.Millisecond, 1, 3},
		{time.Hour, 2, 3},
		{2 * time.Hour, 2, 3},
	} {
		assert.Equal(t, want.floor, r.floor(start.Add(want.after), want.addr), "%v, address %d", want.after, want.addr)
	}
	assert.Len(t, r.recent.list, 1, "the others are forgotten")
	r.age = 0
	r.acknowledge(4, start, 0)
	assert.EqualValues(t, 4, r.floor(start, 1), "no answers from memory")
}

func TestAnswersThatDoNotFitTheRequestAreWrong(t *testing.T) {
	a, b := &record{key: "a"}, &record{key: "b"}
	value := func(r *record, seq uint64) string {
		v := appendValue(nil, r.key, seq)
		return "VALUE " + r.key + " 0 " + strconv.Itoa(len(v)) + "\r\n" + string(v) + "\r\n"
	}
	read := op{keys: []*record{a, b}, floors: []uint64{1, 1}}
	write := op{kind: set, keys: []*record{a}, seq: 20}
	deletion := op{kind: del, keys: []*record{a}, seq: 15}
	for name, tc := range map[string]struct {
		op                   op
		answer               string
		lost                 bool
		wrong, stale, misses int
		withdrawn            int
		acked                uint64
		failure              string
	}{
		"both keys":            {op: read, answer: value(a, 2) + value(b, 3) + "END\r\n"},
		"one key":              {op: read, answer: value(b, 3) + "END\r\n", misses: 1},
		"none":                 {op: read, answer: "END\r\n", misses: 2},
		"an error":             {op: read, answer: "SERVER_ERROR x\r\n", failure: "SERVER_ERROR x"},
		"a value and an error": {op: read, answer: value(a, 2) + "SERVER_ERROR x\r\n", failure: "SERVER_ERROR x"},
		"one is old":           {op: read, answer: value(a, 0) + "END\r\n", wrong: 1, misses: 1},
		"the other's value": {
			op: read, answer: strings.Replace(value(a, 2), "VALUE a", "VALUE b", 1) + "END\r\n",
			wrong: 1, misses: 1,
		},
		"the other order":    {op: read, answer: value(b, 2) + value(a, 2) + "END\r\n", wrong: 1, lost: true},
		"twice":              {op: read, answer: value(a, 2) + value(a, 2) + "END\r\n", wrong: 1, lost: true},
		"not a retrieval's":  {op: read, answer: "STORED\r\n", wrong: 1, lost: true},
		"half a line":        {op: read, answer: "VALUE a", lost: true},
		"no end of the line": {op: read, answer: "END\n", wrong: 1, lost: true},
		"stored":             {op: write, answer: "STORED\r\n", acked: 20},
		"not a write's":      {op: write, answer: "DELETED\r\n", wrong: 1, lost: true},
		"a client's fault":   {op: write, answer: "CLIENT_ERROR x\r\n", failure: "CLIENT_ERROR x"},
		"deleted":            {op: deletion, answer: "DELETED\r\n", acked: 15},
		"nothing to delete":  {op: deletion, answer: "NOT_FOUND\r\n", acked: 15},
		"a longer value": {
			op: read, answer: strings.Replace(value(a, 2), "\r\n", "\r\nx", 1) + "END\r\n",
			wrong: 1, lost: true,
		},
		"the connection's end": {op: write, lost: true},
		"an older value is old": {
			op: op{keys: []*record{a}, floors: []uint64{5}}, answer: value(a, 2) + "END\r\n",
			stale: 1,
		},
		// No later write was acknowledged; another read has returned one.
		"a value read is gone": {
			op: op{keys: []*record{a}, floors: []uint64{5}}, answer: value(a, 4) + "END\r\n",
			withdrawn: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, r := range []*record{a, b} {
				r.issued.Store(20)
				r.acked.Store(3)
				r.seen.Store(0)
			}
			tc.op.due = time.Now()
			o := (&reader{Reader: bufio.NewReader(strings.NewReader(tc.answer))}).answer(&tc.op)
			assert.Equal(t, tc.lost, o.lost, o.failure)
			assert.Len(t, o.wrong, tc.wrong)
			assert.Len(t, o.stale, tc.stale)
			assert.Len(t, o.withdrawn, tc.withdrawn)
			assert.Equal(t, tc.misses, o.misses)
			if !tc.lost {
				assert.Equal(t, tc.failure, o.failure)
			}
			assert.Equal(t, max(tc.acked, 3), a.acked.Load())
		})
	}
}

// Until a sweep, only some servers have the write that a killed mcmw was making.
func TestAValueOlderThanAnUnacknowledgedOneReadBeforeIsCountedSeparatelyIfMcmwIsKilled(t *testing.T) {
	r := &record{key: "a"}
	r.issued.Store(20)
	r.acked.Store(4)
	read := func(c *tally, seq uint64) {
		v := string(appendValue(nil, "a", seq))
		answer := fmt.Sprintf("VALUE a 0 %d\r\n%s\r\nEND\r\n", len(v), v)
		o := op{keys: []*record{r}, floors: []uint64{6}, due: time.Now()}
		c.audit((&reader{Reader: bufio.NewReader(strings.NewReader(answer))}).answer(&o))
	}
	for kills, want := range map[bool][]uint64{false: {3, 0}, true: {1, 2}} {
		c := newTally(time.Now())
		c.kills = kills
		for _, seq := range []uint64{3, 4, 5, 6} {
			read(c, seq)
		}
		assert.Equal(t, want, []uint64{c.stale[After], c.withdrawn}, "kills: %v", kills)
	}
}

func TestErrorsAreCountedWithoutTheirTimes(t *testing.T) {
	assert.Equal(t, "server-2: down: connection refused",
		textOf("SERVER_ERROR server-2: down since 10:11:12: connection refused"))
	assert.Equal(t, "server-2: stale: no reply in time",
		textOf("SERVER_ERROR server-2: stale since 10:11:12: no reply in time"))
	assert.Equal(t, "CLIENT_ERROR bad data chunk", textOf("CLIENT_ERROR bad data chunk"))
}

func TestRequestsAreCountedInThePhaseInWhichTheyWereDue(t *testing.T) {
	start := time.Now()
	c := newTally(start)
	began := c.begin(During)
	c.begin(After)
	r := &record{key: "a"}
	count := func(k kind, due time.Time, failure string, took time.Duration) {
		c.count(outcome{op: &op{kind: k, due: due, keys: []*record{r}}, failure: failure, took: took})
	}
	count(get, start, "", time.Second)
	count(get, began, "SERVER_ERROR x", time.Millisecond)
	count(set, began, "SERVER_ERROR x", 0)
	c.count(outcome{op: &op{kind: set, due: time.Now(), keys: []*record{r}}, lost: true, failure: "EOF"})
	c.audit(outcome{op: &op{keys: []*record{r}}, stale: []string{"stale: a"}})

	assert.Equal(t, Counts{Sent: 1, Succeeded: 1, Slowest: time.Second}, c.reads[Before])
	assert.Equal(t, Counts{Sent: 1, Failed: 1, Slowest: time.Millisecond}, c.reads[During])
	assert.EqualValues(t, 1, c.writes[During].Failed)
	assert.EqualValues(t, 1, c.writes[After].Lost)
	assert.Equal(t, [2][numPhases]uint64{{After: 1}}, c.answered,
		"it was due before the fault, and its answer came after it")
	assert.Equal(t, began, c.lastFault)
	assert.EqualValues(t, 1, c.stale[After])
	assert.Equal(t, []string{"lost: set a (write 0): EOF", "stale: a"}, c.examples)
	require.Equal(t, []ErrorCount{{Text: "x", Count: 2, First: "get a"}}, c.errorCounts())
}
