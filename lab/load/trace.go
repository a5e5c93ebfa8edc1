package load

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"sort"
	"strconv"
	"strings"

	"mcmw/internal/protocol"
)

// Trace has recorded requests that are to be repeated at their times. Connection i of n makes the requests i, i+n, i+2n
// and so on, so requests that are closer together than a reply takes can change places.
type Trace struct {
	requests []traced
	keys     []string // by their numbers, from 1; element 0 is unused
	sizes    []int    // of the values, by the keys' numbers: the last size in the trace, or 0
	largest  int
}

type traced struct {
	due  float64 // s from the first request
	key  uint64
	size int // of a set's value, bytes
	kind command
}

const (
	// maxTraced limits the requests that are held in memory.
	maxTraced = 100_000_000
	maxLine   = 4096
)

// ParseTrace reads a trace in CSV: a line per request with its time in seconds, ascending, its command (get or set),
// its key, and the size of the value in bytes, optional for a get. The first request is made at once. A header line and
// empty lines are skipped.
func ParseTrace(r io.Reader) (*Trace, error) {
	t := &Trace{keys: []string{""}, sizes: []int{0}}
	numbers := map[string]uint64{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	first := math.NaN()
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || n == 1 && strings.HasPrefix(strings.ToLower(line), "time,") {
			continue
		}
		q, key, err := parseTraced(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if math.IsNaN(first) {
			first = q.due
		}
		q.due -= first
		if last := len(t.requests) - 1; last >= 0 && q.due < t.requests[last].due {
			return nil, fmt.Errorf("line %d: its time is before that of the previous line; expected ascending times", n)
		}
		if len(t.requests) == maxTraced {
			return nil, fmt.Errorf("line %d: expected at most %d requests", n, maxTraced)
		}
		number, seen := numbers[key]
		if !seen {
			number = uint64(len(t.keys))
			numbers[key] = number
			t.keys, t.sizes = append(t.keys, key), append(t.sizes, 0)
		}
		q.key = number
		if q.size > 0 {
			t.sizes[number] = q.size
		}
		t.largest = max(t.largest, q.size)
		t.requests = append(t.requests, q)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(t.requests) == 0 {
		return nil, errors.New("no request; expected lines of time, command, key and size, such as 0.25,get,user:1,512")
	}
	return t, nil
}

func parseTraced(line string) (q traced, key string, err error) {
	fields := strings.Split(line, ",")
	if len(fields) < 3 || len(fields) > 4 {
		return q, "", fmt.Errorf("%d fields; expected time, command, key and size, such as 0.25,get,user:1,512",
			len(fields))
	}
	for i := range fields {
		fields[i] = strings.TrimSpace(fields[i])
	}
	if q.due, err = strconv.ParseFloat(fields[0], 64); err != nil || !(math.Abs(q.due) < 1e12) {
		return q, "", fmt.Errorf("time %.60q: expected seconds, such as 0.25", fields[0])
	}
	switch strings.ToLower(fields[1]) {
	case "get":
		q.kind = get
	case "set":
		q.kind = set
	default:
		return q, "", fmt.Errorf("command %.60q: expected get or set", fields[1])
	}
	key = fields[2]
	if key == "" || len(key) > protocol.DefaultMaxKey ||
		strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return q, "", fmt.Errorf("key %.60q: expected 1 to %d bytes without spaces and control characters", key,
			protocol.DefaultMaxKey)
	}
	if len(fields) == 4 && fields[3] != "" {
		if q.size, err = strconv.Atoi(fields[3]); err != nil || q.size < 0 || q.size > maxValueSize {
			return q, "", fmt.Errorf("size %.60q: expected bytes, 0 to %d", fields[3], maxValueSize)
		}
	}
	if q.kind == set && (len(fields) < 4 || fields[3] == "") {
		return q, "", errors.New("a set without a size: expected time, set, key and size")
	}
	return q, key, nil
}

// due returns when request number n is due, s from the first; never beyond the last.
func (t *Trace) due(n float64) float64 {
	if n < 0 || n >= float64(len(t.requests)) {
		return never
	}
	return t.requests[int(n)].due
}

// count returns how many requests are due before a time, s from the first.
func (t *Trace) count(at float64) float64 {
	return float64(sort.Search(len(t.requests), func(i int) bool { return t.requests[i].due >= at }))
}

// ratio returns the numbers of SETs and GETs, or a similar ratio if they exceed maxRatio.
func (t *Trace) ratio() (sets, gets int) {
	for i := range t.requests {
		if t.requests[i].kind == set {
			sets++
		}
	}
	gets = len(t.requests) - sets
	for max(sets, gets) > maxRatio {
		sets, gets = (sets+1)/2, (gets+1)/2
	}
	return sets, gets
}

// size returns the size of a key's value where the request doesn't give one: the last size in the trace, or usual.
func (t *Trace) size(key uint64, usual int) int { return cmp.Or(t.sizes[key], usual) }

// trace returns the trace to replay; nil if there is none.
func (o *Options) trace() *Trace {
	if o.Schedule == nil {
		return nil
	}
	return o.Schedule.Trace
}

// appendTraced appends request n of the trace to b and adds it to the ring, which must have room. drawn is as for
// appendRequest.
func (c *conn) appendTraced(b []byte, w *workload, t *Trace, n int, drawn []uint64) []byte {
	slot := c.takeSlot()
	q, r := &t.requests[n], &c.ring[slot]
	r.command, r.keys = q.kind, 0
	if q.kind == set {
		return w.enc.appendSet(b, q.key, q.size, 0)
	}
	r.keys = 1
	if c.keys != nil {
		drawn = c.keys[slot*w.o.KeysPerGet:]
	}
	drawn[0] = q.key
	return w.enc.appendGet(b, drawn[:1])
}
