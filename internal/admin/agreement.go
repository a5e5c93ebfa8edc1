package admin

import (
	"fmt"
	"time"

	"mcmw/internal/spell"
	"mcmw/internal/stats"
)

// Agreement says what is known of whether the replicas agree.
type Agreement struct {
	Text string `json:"text"` // "": every key is on one server
	// Warning: something is not as it should be.
	Warning bool `json:"warning"`
}

// agreement describes s at a moment. several: replicas are kept alike though other middlewares write the same servers.
func agreement(s *stats.SweepSnapshot, several bool, now time.Time) Agreement {
	if !s.Replicated {
		return Agreement{}
	}
	var a Agreement
	switch {
	case s.Running:
		a.Text = fmt.Sprintf("being compared; %s keys so far since the start, %s differed", spell.Count(float64(s.Keys)), spell.Count(float64(s.Disagreements)))
	case s.Last.IsZero() && s.Every == 0:
		a.Text = "not compared again and again: sweep-every is 0s, or there is one writer"
	case s.Last.IsZero():
		a.Text = "not compared yet"
	default:
		a.Text = fmt.Sprintf("compared %v ago; ", now.Sub(s.Last).Truncate(time.Second))
		switch s.LastDiffer {
		case 0:
			a.Text += "all agreed"
		case 1:
			a.Text, a.Warning = a.Text+"1 key differed", true
		default:
			a.Text, a.Warning = a.Text+spell.Count(float64(s.LastDiffer))+" keys differed", true
		}
	}
	if !several {
		a.Text += "; they agree only while no other mcmw writes these servers (--writers)"
	}
	if s.Why != "" {
		a.Text, a.Warning = a.Text+"; the latest comparison was not complete: "+s.Why, true
	}
	return a
}
