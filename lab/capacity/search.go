package capacity

import (
	"fmt"
	"math"
	"strconv"

	"mcmw/lab/condition"
	"mcmw/lab/record"
)

// RateFactor is the factor that a search raises.
const RateFactor = "requests/s"

// Search finds the highest rate at which the condition of a rule holds.
//
//  1. It doubles the rate, or halves it, until a run breaks the condition and one at half its rate fulfils it.
//  2. It bisects until both are neighbours: rates of which each is Step times the one below.
//  3. It repeats runs at both until their confidence bounds decide, and moves up while the upper one holds, down while
//     the lower one doesn't.
type Search struct {
	Rule  Rule    // its factor is RateFactor
	First float64 // requests per second
	Step  float64 // more than 1
	Most  int     // runs of a rate that can't be decided, at least 2
	// Measure makes a run at a rate. Requests that were not sent in time count as its errors.
	Measure func(rate float64) (record.Run, error)
	// Progress is told about every run.
	Progress func(rate float64, run record.Run, v condition.Verdict)

	runs map[int][]record.Run // by the number of the rate
}

// highestRate and lowestRate are beyond what anything answers, or is measured for.
const (
	lowestRate  = 1
	highestRate = 1e9
)

// Find returns the levels that were decided, of which the highest that holds is the answer.
func (s *Search) Find() (*Capacity, error) {
	s.runs = map[int][]record.Run{}
	s.Rule.Over = RateFactor
	octave := max(int(math.Round(math.Ln2/math.Log(s.Step))), 1)
	verdict, err := s.once(0)
	if err != nil {
		return nil, err
	}
	low, high := 0, 0
	for rising := verdict == condition.Holds; (verdict == condition.Holds) == rising; {
		next := &high
		if rising {
			low, high = high, high+octave
		} else {
			low, high, next = low-octave, low, &low
		}
		if rate := s.rate(*next); rate < lowestRate || rate > highestRate {
			return nil, fmt.Errorf("%s is still %s at %v requests per second", s.Rule,
				map[bool]string{true: "fulfilled", false: "broken"}[rising], s.rate(low+high-*next))
		}
		if verdict, err = s.once(*next); err != nil {
			return nil, err
		}
	}
	return s.decide(low, high)
}

// decide bisects, and decides at which of the neighbours the condition holds.
func (s *Search) decide(low, high int) (*Capacity, error) {
	for high-low > 1 {
		middle := (low + high) / 2
		verdict, err := s.once(middle)
		if err != nil {
			return nil, err
		}
		if verdict == condition.Holds {
			low = middle
		} else {
			high = middle
		}
	}
	for {
		if s.rate(low) < lowestRate {
			return nil, fmt.Errorf("%s is still broken at %v requests per second", s.Rule, s.rate(low+1))
		}
		lower, err := s.repeat(low)
		if err != nil {
			return nil, err
		}
		if lower.Verdict != condition.Holds {
			low--
			continue
		}
		upper, err := s.repeat(low + 1)
		if err != nil {
			return nil, err
		}
		if upper.Verdict == condition.Holds {
			low++
			continue
		}
		var runs []record.Run
		for _, k := range []int{low, low + 1} {
			runs = append(runs, s.runs[k]...)
		}
		return Find(runs, s.Rule, nil)
	}
}

// rate returns rate number k, with five digits: neighbours differ at any rate.
func (s *Search) rate(k int) float64 {
	text := strconv.FormatFloat(s.First*math.Pow(s.Step, float64(k)), 'g', 5, 64)
	rate, _ := strconv.ParseFloat(text, 64) // its own text
	return rate
}

// once returns the verdict of one run at a rate, which it makes unless there is one.
func (s *Search) once(k int) (condition.Verdict, error) {
	if len(s.runs[k]) == 0 {
		if err := s.measure(k); err != nil {
			return "", err
		}
	}
	run := s.runs[k][0]
	of := s.Rule.Condition.Term.Metric
	v, ok := run.Value(of.Source, of.Name)
	failed, _ := run.Value(record.SourceClient, "errors")
	if !ok && failed == 0 {
		return "", fmt.Errorf("at %v requests per second %s.%s was not measured: expected a metric of the clients and "+
			"of requests that they send", s.rate(k), of.Source, of.Name)
	}
	return condition.Of(failed == 0 && s.Rule.Condition.Holds(v)), nil
}

// repeat makes runs at a rate until they decide.
func (s *Search) repeat(k int) (Level, error) {
	for {
		if len(s.runs[k]) >= 2 {
			if l := s.level(k); l.Verdict != condition.Unknown || len(s.runs[k]) >= s.Most {
				return l, nil
			}
		}
		if err := s.measure(k); err != nil {
			return Level{}, err
		}
	}
}

// level judges the runs at a rate.
func (s *Search) level(k int) Level {
	return newLevel(s.Rule.frame(s.runs[k]).Points[0], s.Rule)
}

func (s *Search) measure(k int) error {
	run, err := s.Measure(s.rate(k))
	if err != nil {
		return err
	}
	run.State, run.Repetition = record.Complete, len(s.runs[k])
	run.Factors = map[string]string{RateFactor: strconv.FormatFloat(s.rate(k), 'f', -1, 64)}
	s.runs[k] = append(s.runs[k], run)
	verdict, err := s.once(k)
	if err != nil {
		return err
	}
	if len(s.runs[k]) > 1 {
		verdict = s.level(k).Verdict
	}
	s.Progress(s.rate(k), run, verdict)
	return nil
}
