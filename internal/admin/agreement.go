package admin

import (
	"fmt"
	"time"

	"mcmw/internal/spell"
	"mcmw/internal/stats"
)

// Agreement describes whether the replicas are known to agree.
type Agreement struct {
	Text string `json:"text"` // "": every key is on one server
	// Warning: the text names a problem.
	Warning bool `json:"warning"`
}

// agreement describes the replicas in all, at the time now.
func agreement(all *stats.Snapshot, now time.Time) Agreement {
	s := &all.Sweep
	if !s.Replicated {
		return Agreement{}
	}
	var a Agreement
	switch {
	case s.Running:
		a.Text = fmt.Sprintf("being compared; %s keys so far since the start, %s differed",
			spell.Count(float64(s.Keys)), spell.Count(float64(s.Disagreements)))
	case s.Last.IsZero() && s.Every == 0:
		a.Text = "not compared regularly: sweep-every is 0s, or there is only one writer"
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
	if !all.Several {
		a.Text += "; they agree only while no other mcmw writes these servers (--writers)"
	}
	if s.Why != "" {
		a.Text, a.Warning = a.Text+"; the latest comparison was incomplete: "+s.Why, true
	}
	for i := range all.Servers {
		name, h := all.Servers[i].Name, &all.Servers[i].Health
		switch {
		case all.Servers[i].ShadowOf != "": // no client reads it
		case h.MarkedHere:
			a.Text, a.Warning = a.Text+"; "+name+" missed writes and is not read", true
		case h.MarkedElsewhere:
			a.Text, a.Warning = a.Text+"; "+name+" missed another mcmw's writes and is not read", true
		}
	}
	if all.MarksUnknown {
		a.Text,
			a.Warning = a.Text+"; no server is read: at most half of them tell which servers missed another mcmw's "+
			"writes", true
	}
	return a
}
