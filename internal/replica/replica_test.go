package replica

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// answers parses one word per replica, in the order of arrival: a success (s), a refusal (r), an error (!) or silence
// (-). Different words are different answers.
func answers(s string) (list []Answer) {
	groups := map[string]int{}
	for i, w := range strings.Fields(s) {
		a := Answer{Arrived: i}
		switch w[0] {
		case 's':
			a.Outcome = Success
		case 'r':
			a.Outcome = Refused
		case '!':
			a.Outcome = Failed
		case '-':
			a.Outcome = Silent
		}
		if _, ok := groups[w]; !ok {
			groups[w] = len(groups)
		}
		a.Group = groups[w]
		list = append(list, a)
	}
	return list
}

func TestTheClientGetsTheAnswerThatEnoughReplicasGave(t *testing.T) {
	for _, tc := range []struct {
		answers          string
		all, quorum, any string // chosen index, then the repaired replicas
	}{
		{"s s s", "0:", "0:", "0:"},
		{"r r r", "0:", "0:", "0:"},
		{"! ! !", "0:", "0:", "0:"},
		{"!a !b !a", "2:012", "2:012", "2:012"},
		{"s s r", "2:01", "0:2", "0:2"},
		{"s r r", "2:0", "1:0", "0:12"},
		{"r s s", "0:12", "1:0", "1:0"},
		{"s s !", "2:012", "0:2", "0:2"},
		{"s ! !", "2:012", "2:012", "0:12"},
		{"s s -", "2:2", "0:2", "0:2"},
		{"s - -", "2:12", "2:12", "0:12"},
		{"r r -", "2:2", "0:2", "0:2"},
		{"- - -", "2:012", "2:012", "2:012"},
		{"s r -", "2:012", "2:012", "0:12"},
		{"- s r", "2:01", "2:01", "1:02"},
		{"s6 s7 s6", "2:1", "0:1", "0:1"},
		{"s6 s7 s8", "2:01", "2:01", "0:12"},
		{"s", "0:", "0:", "0:"},
		{"s s", "0:", "0:", "0:"},
		{"s r", "1:0", "1:0", "0:1"},
	} {
		for ack, want := range map[Ack]string{AckAll: tc.all, AckQuorum: tc.quorum, AckAny: tc.any} {
			chosen, repair := Decide(ack, answers(tc.answers), nil)
			got := string(rune('0'+chosen)) + ":"
			for _, i := range repair {
				got += string(rune('0' + i))
			}
			assert.Equal(t, want, got, "%s with ack %s", tc.answers, ack)
		}
	}
}
