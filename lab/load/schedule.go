package load

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Schedule says when the requests of an open loop are due, whatever happens to earlier ones. It is a piecewise linear
// rate over time. Times count from the beginning of the recording.
//
// With the rate r(t) in requests per second, the number of requests due up to the time t is
//
//	N(t) = integral of r(u) du, u from 0 to t
//
// and request number n is due at the time T(n) = N^-1(n). A piece of length d whose rate changes from a to b has the
// slope k = (b-a)/d and N(t) = a t + k t^2/2, so that
//
//	T(n) = 2n / (a + sqrt(a^2 + 2 k n))
//
// which is the root of the quadratic equation in a form without cancellation for small k. With even arrivals n is 0, 1,
// 2, ...; with Poisson arrivals n is a sum of exponential variables of mean 1. That turns a Poisson process of rate 1
// into an (inhomogeneous) one of rate r(t) (Cinlar's inversion).
type Schedule struct {
	// Pieces follow each other. At least one has a rate above 0.
	Pieces []Piece
	// Repeat begins again after the last piece; otherwise the last rate continues.
	Repeat bool
	// Poisson makes the times between arrivals random: independent, and exponential at a constant rate. Otherwise
	// arrivals are even.
	Poisson bool
	// Trace replays requests at their recorded times, in place of all the above; nil: none.
	Trace *Trace
}

// Piece is a stretch of time in which the rate changes linearly.
type Piece struct {
	Length   time.Duration `json:"length_ns"`
	From, To float64       // requests per second, of all connections together
}

// never is the due time of a request that is never due, s.
var never = math.Inf(1)

// count is N at the end of the piece.
func (p Piece) count() float64 { return (p.From + p.To) / 2 * p.Length.Seconds() }

// due is T within the piece, s from its beginning; n is from 0 to p.count().
func (p Piece) due(n float64) float64 {
	if n <= 0 {
		return 0
	}
	slope := (p.To - p.From) / p.Length.Seconds()
	// Rounding can make it negative at the end of a piece that falls to a rate of 0.
	root := math.Sqrt(max(p.From*p.From+2*slope*n, 0))
	return min(2*n/(p.From+root), p.Length.Seconds())
}

// Due returns T(n), seconds from the beginning of the recording; +Inf if the rate falls to 0 before. Before the
// recording, at n below 0, the rate is that at its beginning.
func (s *Schedule) Due(n float64) float64 {
	if s.Trace != nil {
		return s.Trace.due(n)
	}
	if n < 0 {
		if rate := s.Pieces[0].From; rate > 0 {
			return n / rate
		}
		return math.Inf(-1)
	}
	start := 0.0
	if s.Repeat {
		each, length := s.sums()
		rounds := math.Floor(n / each)
		start = rounds * length
		n -= rounds * each
	}
	for _, p := range s.Pieces {
		if count := p.count(); n > count {
			n -= count
			start += p.Length.Seconds()
			continue
		}
		if p.From == 0 && p.To == 0 {
			start += p.Length.Seconds()
			continue // n is 0: it is due in the next piece with a rate
		}
		return start + p.due(n)
	}
	if last := s.Pieces[len(s.Pieces)-1].To; last > 0 && !s.Repeat {
		return start + n/last
	}
	if s.Repeat {
		return start // by rounding, the last request of a round is due at the beginning of the next
	}
	return never
}

// Count returns N(t), t in seconds from the beginning of the recording.
func (s *Schedule) Count(t float64) float64 {
	if s.Trace != nil {
		return s.Trace.count(t)
	}
	if t < 0 {
		return s.Pieces[0].From * t
	}
	var n float64
	if s.Repeat {
		each, length := s.sums()
		rounds := math.Floor(t / length)
		n = rounds * each
		t -= rounds * length
	}
	for _, p := range s.Pieces {
		length := p.Length.Seconds()
		if t < length {
			return n + p.From*t + (p.To-p.From)/length*t*t/2
		}
		n += p.count()
		t -= length
	}
	if s.Repeat {
		return n
	}
	return n + s.Pieces[len(s.Pieces)-1].To*t
}

// sums returns the requests and the seconds of all pieces together.
func (s *Schedule) sums() (count, length float64) {
	for _, p := range s.Pieces {
		count += p.count()
		length += p.Length.Seconds()
	}
	return count, length
}

// Constant returns a schedule of one rate, requests per second.
func Constant(rate float64) *Schedule {
	return &Schedule{Pieces: []Piece{{Length: time.Second, From: rate, To: rate}}}
}

// Times returns a schedule of all rates times a factor.
func (s *Schedule) Times(factor float64) *Schedule {
	t := *s
	t.Pieces = slices.Clone(s.Pieces)
	for i := range t.Pieces {
		t.Pieces[i].From, t.Pieces[i].To = factor*t.Pieces[i].From, factor*t.Pieces[i].To
	}
	return &t
}

func (s *Schedule) validate() error {
	if s.Trace != nil {
		return nil
	}
	if len(s.Pieces) == 0 {
		return errors.New("the schedule has no rate")
	}
	var most float64
	for i, p := range s.Pieces {
		if p.Length <= 0 {
			return fmt.Errorf("piece %d of the schedule: a length of %v: expected more than 0", i+1, p.Length)
		}
		for _, rate := range []float64{p.From, p.To} {
			if !(rate >= 0 && rate <= maxRate) {
				return fmt.Errorf("piece %d of the schedule: a rate of %v requests per second: expected 0 to %.0f", i+1,
					rate, maxRate)
			}
			most = max(most, rate)
		}
	}
	if most == 0 {
		return errors.New("the schedule's rate is always 0")
	}
	return nil
}

// maxRate catches typing errors, requests per second.
const maxRate = 1e9

// ParseSchedule parses the rate of an open loop, requests per second of all connections together:
//
//	20000                               constant
//	ramp:1000-20000/30s                 from one rate to another over that time; the last rate continues
//	steps:1000,2000,4000/10s            each rate for that time; the last rate continues
//	burst:1000,20000/10s,500ms          the first rate, and every 10 s the second one for 500 ms
func ParseSchedule(text string) (*Schedule, error) {
	kind, rest, ok := strings.Cut(text, ":")
	if !ok {
		kind, rest = "constant", text
	}
	s, err := parseSchedule(kind, rest)
	if err == nil {
		err = s.validate()
	}
	if err != nil {
		return nil,
			fmt.Errorf("rate %q: %w; expected a rate such as 20000, ramp:1000-20000/30s, steps:1000,2000/10s or "+
				"burst:1000,20000/10s,500ms",
				text, err)
	}
	return s, nil
}

// parseSchedule parses the rates and times of a kind of schedule.
func parseSchedule(kind, text string) (*Schedule, error) {
	list, times, timed := strings.Cut(text, "/")
	separator := ","
	switch kind {
	case "ramp":
		separator = "-"
	case "constant", "steps", "burst":
	default:
		return nil, errors.New("unknown kind")
	}
	var rates []float64
	for item := range strings.SplitSeq(list, separator) {
		rate, err := strconv.ParseFloat(item, 64)
		if err != nil {
			return nil, fmt.Errorf("%q is not a number of requests per second", item)
		}
		rates = append(rates, rate)
	}
	switch kind {
	case "constant":
		if len(rates) == 1 && !timed {
			return Constant(rates[0]), nil
		}
		return nil, errors.New("a constant rate is one number")
	case "ramp":
		length, err := time.ParseDuration(times)
		if err != nil || len(rates) != 2 {
			return nil, errors.New("a ramp has two rates and a time")
		}
		return &Schedule{Pieces: []Piece{{length, rates[0], rates[1]}}}, nil
	case "steps":
		length, err := time.ParseDuration(times)
		if err != nil {
			return nil, errors.New("steps have rates and the time of each step")
		}
		s := &Schedule{}
		for _, rate := range rates {
			s.Pieces = append(s.Pieces, Piece{length, rate, rate})
		}
		return s, nil
	default: // burst
		every, lasting, _ := strings.Cut(times, ",")
		period, err1 := time.ParseDuration(every)
		length, err2 := time.ParseDuration(lasting)
		if err1 != nil || err2 != nil || len(rates) != 2 {
			return nil, errors.New("a burst has two rates, the time from one burst to the next, and the length of each")
		}
		if length >= period {
			return nil, fmt.Errorf("bursts of %v every %v leave no time between them", length, period)
		}
		return &Schedule{
			Repeat: true,
			Pieces: []Piece{{period - length, rates[0], rates[0]}, {length, rates[1], rates[1]}},
		}, nil
	}
}

// String returns the form that ParseSchedule reads.
func (s *Schedule) String() string {
	if s.Trace != nil {
		return "trace"
	}
	number := func(rate float64) string { return strconv.FormatFloat(rate, 'f', -1, 64) }
	first, last := s.Pieces[0], s.Pieces[len(s.Pieces)-1]
	switch {
	case s.Repeat && len(s.Pieces) == 2:
		return fmt.Sprintf("burst:%s,%s/%v,%v", number(first.From), number(last.From), first.Length+last.Length,
			last.Length)
	case len(s.Pieces) > 1:
		var rates []string
		for _, p := range s.Pieces {
			rates = append(rates, number(p.From))
		}
		return fmt.Sprintf("steps:%s/%v", strings.Join(rates, ","), first.Length)
	case first.From != first.To:
		return fmt.Sprintf("ramp:%s-%s/%v", number(first.From), number(first.To), first.Length)
	default:
		return number(first.From)
	}
}
