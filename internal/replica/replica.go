// Package replica decides which answer a client gets to a write that went to several servers, and which of these
// servers have to be repaired. It is pure.
package replica

import "mcmw/internal/enum"

// Ack says how many replicas must have given an answer before the client gets it.
type Ack uint8

// The acknowledgement modes: how many replicas that is.
const (
	AckAll    Ack = iota // all
	AckLive              // all that answer; no mcmw instance reads the others until they are clean
	AckQuorum            // more than half
	AckAny               // one
)

// AckNames are the modes' names.
var AckNames = enum.New[Ack]("ack", "all", "live", "quorum", "any")

func (a Ack) String() string { return AckNames.Of(a) }

// needed returns how many replicas must have given the same answer.
func (a Ack) needed(answers []Answer) int {
	switch a {
	case AckLive:
		answered := 0
		for _, answer := range answers {
			if answer.Outcome != Silent {
				answered++
			}
		}
		return max(1, answered)
	case AckQuorum:
		return len(answers)/2 + 1
	case AckAny:
		return 1
	}
	return len(answers)
}

// Outcome is how a write ended on one replica.
type Outcome uint8

// The outcomes.
const (
	Success Outcome = iota // STORED, DELETED, TOUCHED, a number, HD
	Refused                // its condition did not hold: NOT_STORED, EXISTS, NOT_FOUND, NS, EX, NF
	Failed                 // the server answered with an error line
	Silent                 // no answer: unreachable, connection lost, timed out
)

// Answer is one replica's answer to a write.
type Answer struct {
	Outcome Outcome
	// Group is equal for equal answers, and different for different ones.
	Group int
	// Arrived orders the answers by their arrival.
	Arrived int
}

// Decide returns the index of the answer that the client gets, and appends to repair the replicas that must be
// repaired, by deleting the key there, so that a later read misses instead of returning a wrong value:
//
//   - It is the success that most replicas gave, if at least as many gave it as ack demands; otherwise a refusal that
//     as many gave; otherwise an error that all of them gave. Replicas that answered anything else, or nothing, are
//     repaired.
//   - Otherwise it is the last answer that is not a success. If this is a refusal, replicas that answered differently
//     are repaired. If it stands for replicas that gave no answer while the others agree, only the silent ones are
//     repaired: the write may have been done, like any write whose acknowledgement was lost. Otherwise the state is not
//     known, and all are repaired.
func Decide(ack Ack, answers []Answer, repair []int) (chosen int, repaired []int) {
	needed := ack.needed(answers)
	chosen = largest(answers, Success, needed)
	if chosen < 0 {
		chosen = largest(answers, Refused, needed)
	}
	if chosen < 0 {
		chosen = largest(answers, Failed, len(answers))
	}
	if chosen >= 0 {
		return chosen, others(answers, answers[chosen].Group, repair)
	}
	chosen = last(answers)
	switch answers[chosen].Outcome {
	case Refused, Success:
		return chosen, others(answers, answers[chosen].Group, repair)
	case Silent:
		if definite, agreed := agreement(answers); agreed {
			return chosen, others(answers, definite, repair)
		}
	}
	for i := range answers {
		repair = append(repair, i)
	}
	return chosen, repair
}

// largest returns the first member of the largest group with outcome o; -1 if it has fewer than needed members.
func largest(answers []Answer, o Outcome, needed int) int {
	best, size := -1, needed-1
	for i, a := range answers {
		if a.Outcome != o {
			continue
		}
		n := 0
		for _, b := range answers {
			if b.Outcome == o && b.Group == a.Group {
				n++
			}
		}
		if n > size {
			best, size = i, n
		}
	}
	return best
}

// last returns the last of the answers that are not successes, or the last of all if there is none.
func last(answers []Answer) int {
	best := 0
	for i, a := range answers {
		failed, bestFailed := a.Outcome != Success, answers[best].Outcome != Success
		if failed && !bestFailed || failed == bestFailed && a.Arrived > answers[best].Arrived {
			best = i
		}
	}
	return best
}

// agreement returns the group of the replicas that answered. agreed: at least one answered, all that did agree, and
// none failed.
func agreement(answers []Answer) (group int, agreed bool) {
	for _, a := range answers {
		switch {
		case a.Outcome == Silent:
		case a.Outcome == Failed, agreed && a.Group != group:
			return 0, false
		default:
			group, agreed = a.Group, true
		}
	}
	return group, agreed
}

// others appends the replicas that did not answer as group did.
func others(answers []Answer, group int, repair []int) []int {
	for i, a := range answers {
		if a.Group != group || a.Outcome == Silent {
			repair = append(repair, i)
		}
	}
	return repair
}
