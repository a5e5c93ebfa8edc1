package experiment

import (
	"math/rand/v2"
	"slices"

	"mcmw/lab/frame"
)

// Slot is one run in the order of the runs.
type Slot struct {
	Position   int // from 0, in the order of the runs
	Point      *Point
	Repetition int // from 0
}

// Schedule returns the slots of an experiment in order.
type Schedule struct {
	e        *Experiment
	measured func(source, metric string, point, before int) []float64

	lines map[string][]*Point // of the quality of service; nil until beyond needs them

	queue      []Slot
	position   int // of the next slot
	round      int // number of rounds in the queue so far
	point, rep int // listed order: the next slot
}

// Schedule returns a schedule that begins with the first slot. measured returns the values of a source's metric in the
// repetitions of a point before the given one. It is only called if there is a stop rule or a quality of service with
// GiveUp; its result should then include the runs of all slots returned so far.
func (e *Experiment) Schedule(measured func(source, metric string, point, before int) []float64) *Schedule {
	return &Schedule{e: e, measured: measured}
}

// Next returns the next slot; false after the last one.
func (s *Schedule) Next() (Slot, bool) {
	for len(s.queue) == 0 {
		if !s.refill() {
			return Slot{}, false
		}
	}
	slot := s.queue[0]
	s.queue = s.queue[1:]
	slot.Position = s.position
	s.position++
	return slot, true
}

// refill adds slots to the queue, or advances to the next point without adding one; false after the last slot.
func (s *Schedule) refill() bool {
	e := s.e
	_, most := e.limits()
	switch e.Order {
	case Listed:
		if s.point < len(e.Points) && s.rep < most && s.wants(&e.Points[s.point], s.rep) {
			s.queue = append(s.queue, Slot{Point: &e.Points[s.point], Repetition: s.rep})
			s.rep++
			return true
		}
		s.point++
		s.rep = 0
		return s.point < len(e.Points)
	case Random:
		if s.round > 0 {
			return false
		}
		s.round = 1
		for r := range most {
			for i := range e.Points {
				s.queue = append(s.queue, Slot{Point: &e.Points[i], Repetition: r})
			}
		}
		s.shuffle(0)
	default:
		if s.round == most {
			return false
		}
		for i := range e.Points {
			if s.wants(&e.Points[i], s.round) {
				s.queue = append(s.queue, Slot{Point: &e.Points[i], Repetition: s.round})
			}
		}
		if e.Order == Paired {
			s.rotate(len(e.Factors[len(e.Factors)-1].Levels))
		} else {
			s.shuffle(uint64(s.round))
		}
		s.round++
	}
	return true
}

// shuffle shuffles the queue. The order depends only on the seed and the round.
func (s *Schedule) shuffle(round uint64) {
	random := rand.New(rand.NewPCG(s.e.Seed, round))
	random.Shuffle(len(s.queue), func(i, j int) { s.queue[i], s.queue[j] = s.queue[j], s.queue[i] })
}

// rotate rotates the points of each block by the number of the round, so that every round begins with another one. A
// stop rule can have removed points from a block.
func (s *Schedule) rotate(block int) {
	for begin := 0; begin < len(s.queue); {
		end := begin + 1
		for end < len(s.queue) && s.queue[end].Point.Number/block == s.queue[begin].Point.Number/block {
			end++
		}
		points := s.queue[begin:end]
		by := s.round % len(points)
		copy(points, append(slices.Clone(points[by:]), points[:by]...))
		begin = end
	}
}

// limits returns the least and the largest number of repetitions of a point.
func (e *Experiment) limits() (least, most int) {
	if e.Stop == nil {
		return e.Repetitions, e.Repetitions
	}
	return e.Stop.AtLeast, e.Stop.AtMost
}

// wants reports whether a repetition of a point is to be measured.
func (s *Schedule) wants(p *Point, repetition int) bool {
	if s.beyond(p) {
		return false
	}
	if least, _ := s.e.limits(); repetition < least {
		return true
	}
	return !s.e.Stop.Satisfied(func(of frame.Metric) []float64 {
		return s.measured(of.Source, of.Name, p.Number, repetition)
	})
}
