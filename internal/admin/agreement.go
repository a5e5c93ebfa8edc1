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

// agreement describes what s says at a moment.
func agreement(all *stats.Snapshot, now time.Time) Agreement {
	s := &all.Sweep
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
	if !all.Several {
		a.Text += "; they agree only while no other mcmw writes these servers (--writers)"
	}
	if s.Why != "" {
		a.Text, a.Warning = a.Text+"; the latest comparison was not complete: "+s.Why, true
	}
	for i := range all.Servers {
		name, h := all.Servers[i].Name, &all.Servers[i].Health
		switch {
		case all.Servers[i].ShadowOf != "": // which no client reads
		case h.MarkedHere:
			a.Text, a.Warning = a.Text+"; "+name+" missed writes and is not read", true
		case h.MarkedElsewhere:
			a.Text, a.Warning = a.Text+"; "+name+" missed another mcmw's writes and is not read", true
		}
	}
	if all.MarksUnknown {
		a.Text, a.Warning = a.Text+"; no server is read: at most half of them say which missed another mcmw's writes", true
	}
	return a
}
