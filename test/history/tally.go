package history

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// kind is the kind of a request.
type kind uint8

const (
	get kind = iota
	set
	del
	count // an increment
	numKinds
)

// Class groups kinds of requests whose errors are expected or not in the same way.
type Class int

const (
	Reads Class = iota
	Writes
	Increments
	NumClasses
)

func (c Class) String() string { return [NumClasses]string{"reads", "writes", "increments"}[c] }

func (k kind) class() Class {
	switch k {
	case get:
		return Reads
	case count:
		return Increments
	}
	return Writes
}

// Failures are the errors of failed requests, by class and error text.
type Failures [NumClasses]map[string]*ErrorCount

// Counts are the outcomes of requests.
type Counts struct {
	Sent      uint64 `json:"sent"`
	Succeeded uint64 `json:"succeeded"`
	Failed    uint64 `json:"failed"`
	// Lost requests got no answer: the connection ended first, or nothing arrived within AnswerWithin.
	Lost uint64 `json:"lost"`
	// Slowest is the longest time from a request's due time to its answer.
	Slowest time.Duration `json:"slowest_ns"`
}

func (c *Counts) add(o Counts) {
	c.Sent += o.Sent
	c.Succeeded += o.Succeeded
	c.Failed += o.Failed
	c.Lost += o.Lost
	c.Slowest = max(c.Slowest, o.Slowest)
}

// Phase is a part of the timeline of a load.
type Phase int

const (
	Before Phase = iota // before the fault
	During              // from the fault to its end, or to Steady
	Steady              // from some time after the fault to its end
	After
	numPhases
)

// tally counts the outcomes of requests. All connections share one.
type tally struct {
	mu        sync.Mutex // guards all fields below; held for a few additions
	phases    []boundary
	reads     [numPhases]Counts
	writes    [numPhases]Counts
	grouped   bool                          // connections are in groups; static
	took      [2][numPhases][]time.Duration // if so: response times by group
	answered  [2][numPhases]uint64          // successes by group, and by the phase in which the answer came
	misses    uint64
	audited   uint64
	wrong     uint64
	stale     [numPhases]uint64
	withdrawn uint64   // only with kills
	kills     bool     // see Manners; static
	examples  []string // of broken promises
	failed    Failures
	lastFault time.Time // when the last failed request was due
	refused   uint64    // failed attempts to connect
	orderly   uint64    // connections that ended between two replies and were replaced
}

// boundary is the beginning of a phase.
type boundary struct {
	from  time.Time
	phase Phase
}

// maxExamples is how many descriptions of broken promises are kept.
const maxExamples = 10

func newTally(start time.Time) *tally {
	return &tally{phases: []boundary{{start, Before}}, failed: Failures{{}, {}, {}}}
}

// begin starts phase p now.
func (t *tally) begin(p Phase) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	t.phases = append(t.phases, boundary{now, p})
	return now
}

// phaseOf returns the phase in which a request was due; mu is held.
func (t *tally) phaseOf(due time.Time) Phase {
	for i := len(t.phases) - 1; i > 0; i-- {
		if !due.Before(t.phases[i].from) {
			return t.phases[i].phase
		}
	}
	return t.phases[0].phase
}

// outcome is the outcome of one request.
type outcome struct {
	op      *op
	lost    bool
	failure string // the error line; "": success
	cause   error  // why it was lost
	misses  int
	wrong   []string // descriptions
	stale   []string
	// withdrawn values are older than one read before, but not older than the last acknowledged write.
	withdrawn []string
	took      time.Duration // since it was due
}

// count adds a request.
func (t *tally) count(o outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.phaseOf(o.op.due)
	c, failed := &t.writes[p], t.failed[o.op.kind.class()]
	if o.op.kind == get {
		c = &t.reads[p]
	}
	c.Sent++
	switch {
	case o.lost:
		c.Lost++
		t.example("lost: " + o.op.String() + ": " + o.failure)
	case o.failure != "":
		c.Failed++
		text := textOf(o.failure)
		if failed[text] == nil {
			failed[text] = &ErrorCount{Text: text, First: o.op.String()}
		}
		failed[text].Count++
		if o.op.due.After(t.lastFault) {
			t.lastFault = o.op.due
		}
	default:
		c.Succeeded++
		t.answered[o.op.group][t.phaseOf(o.op.due.Add(o.took))]++
	}
	if !o.lost {
		c.Slowest = max(c.Slowest, o.took)
		if t.grouped {
			t.took[o.op.group][p] = append(t.took[o.op.group][p], o.took)
		}
	}
	t.misses += uint64(o.misses)
	t.judge(o, p)
}

// refuse adds a failed attempt to connect.
func (t *tally) refuse(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.refused++
	t.example("refused: " + err.Error())
}

// ended adds a connection that ended in an orderly way.
func (t *tally) ended() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.orderly++
}

// audit adds a value that was read after the load.
func (t *tally) audit(o outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.audited++
	t.judge(o, After)
}

// judge adds the values that should not have been read; mu is held.
func (t *tally) judge(o outcome, p Phase) {
	t.wrong += uint64(len(o.wrong))
	if t.kills {
		t.withdrawn += uint64(len(o.withdrawn))
	} else {
		o.stale = slices.Concat(o.stale, o.withdrawn)
	}
	t.stale[p] += uint64(len(o.stale))
	for _, text := range slices.Concat(o.wrong, o.stale) {
		t.example(text)
	}
}

// example keeps text unless there are maxExamples already; mu is held.
func (t *tally) example(text string) {
	if len(t.examples) < maxExamples {
		t.examples = append(t.examples, text)
	}
}

// Parts of error lines that are left out, so that equal errors are counted together.
var (
	clockTime = regexp.MustCompile(` since \d\d:\d\d:\d\d`)
	leadWords = regexp.MustCompile(`^SERVER_ERROR `)
)

// textOf returns the error line without the parts that differ from time to time.
func textOf(failure string) string {
	return clockTime.ReplaceAllString(leadWords.ReplaceAllString(strings.TrimSpace(failure), ""), "")
}

// ErrorCount is an error and how often requests failed with it.
type ErrorCount struct {
	Text  string `json:"text"`
	Count uint64 `json:"count"`
	First string `json:"first"` // the first such request
}

// errorCounts returns the errors, most frequent first; mu is held.
func (t *tally) errorCounts() []ErrorCount {
	var counts []ErrorCount
	for _, failed := range t.failed {
		for _, text := range slices.Sorted(maps.Keys(failed)) {
			if i := slices.IndexFunc(counts, func(c ErrorCount) bool { return c.Text == text }); i >= 0 {
				counts[i].Count += failed[text].Count
				continue
			}
			counts = append(counts, *failed[text])
		}
	}
	slices.SortStableFunc(counts, func(a, b ErrorCount) int { return cmp.Compare(b.Count, a.Count) })
	return counts
}

// Performance describes the answers to a group of connections in a phase.
type Performance struct {
	PerSecond float64       `json:"successes_per_s"` // successes in the phase
	P99       time.Duration `json:"p99_ns"`          // of the requests due in the phase
}

// Performance returns that of a group in a phase that has ended. Response times are kept only of grouped connections.
func (l *Load) Performance(group int, p Phase) Performance {
	t := l.tally
	t.mu.Lock()
	defer t.mu.Unlock()
	var begin, end time.Time
	for i, b := range t.phases {
		if b.phase == p {
			begin, end = b.from, t.phases[i+1].from
		}
	}
	took := slices.Sorted(slices.Values(t.took[group][p]))
	result := Performance{PerSecond: float64(t.answered[group][p]) / end.Sub(begin).Seconds()}
	if len(took) > 0 {
		result.P99 = took[(len(took)-1)*99/100]
	}
	return result
}
