package admin

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"mcmw/internal/stats"
)

func TestTheAgreementOfTheReplicasIsDescribed(t *testing.T) {
	now := time.Now()
	for _, tc := range []struct {
		sweep   stats.SweepSnapshot
		text    string
		warning bool
	}{
		{stats.SweepSnapshot{}, "", false},
		{
			stats.SweepSnapshot{Replicated: true},
			"not compared regularly: sweep-every is 0s, or there is only one writer", false,
		},
		{stats.SweepSnapshot{Replicated: true, Every: 1}, "not compared yet", false},
		{
			stats.SweepSnapshot{
				Replicated: true, Running: true, SweepCounts: stats.SweepCounts{Keys: 12, Disagreements: 3},
			},
			"being compared; 12 keys so far since the start, 3 differed", false,
		},
		{
			stats.SweepSnapshot{Replicated: true, Last: now.Add(-90500 * time.Millisecond)},
			"compared 1m30s ago; all agreed", false,
		},
		{
			stats.SweepSnapshot{Replicated: true, Last: now.Add(-time.Second), LastDiffer: 1},
			"compared 1s ago; 1 key differed", true,
		},
		{
			stats.SweepSnapshot{Replicated: true, Last: now.Add(-time.Second), LastDiffer: 7},
			"compared 1s ago; 7 keys differed", true,
		},
		{
			stats.SweepSnapshot{Replicated: true, Every: 1, Why: "a: not up"},
			"not compared yet; the latest comparison was incomplete: a: not up", true,
		},
	} {
		assert.Equal(t, Agreement{tc.text, tc.warning}, agreement(&stats.Snapshot{Sweep: tc.sweep, Several: true}, now))
	}
	assert.Equal(t,
		Agreement{Text: "not compared yet; they agree only while no other mcmw writes these servers (--writers)"},
		agreement(&stats.Snapshot{Sweep: stats.SweepSnapshot{Replicated: true, Every: 1}}, now))
	assert.Empty(t, agreement(new(stats.Snapshot), now).Text, "one replica")
	marked := &stats.Snapshot{
		Sweep: stats.SweepSnapshot{Replicated: true, Every: 1}, Several: true, MarksUnknown: true,
		Servers: []stats.ServerSnapshot{
			{Name: "a"},
			{Name: "b", Health: stats.Health{MarkedHere: true, MarkedElsewhere: true}},
			{Name: "c", Health: stats.Health{MarkedElsewhere: true}},
		},
	}
	assert.Equal(t, Agreement{
		"not compared yet; b missed writes and is not read; c missed another mcmw's writes and is not read" +
			"; no server is read: at most half of them tell which servers missed another mcmw's writes", true,
	}, agreement(marked, now))
}
