package model

import (
	"fmt"

	"mcmw/internal/spell"
)

// advice returns a few sentences: the bottleneck, the numbers that show it, and what would help.
func (r *Report) advice(w *Window, queued float64) string {
	text := r.limitAdvice(w, queued)
	if r.Hot > 0 {
		text += fmt.Sprintf(" Of the requests, %.0f %% are answered from memory: workers and servers see only the "+
			"others.", 100*r.Hot)
	}
	return text
}

// limitAdvice returns the advice without the sentence about answers from memory.
func (r *Report) limitAdvice(w *Window, queued float64) string {
	if r.Bottleneck < 0 {
		return "No requests were answered in this window."
	}
	limit := &r.Parts[r.Bottleneck]
	if !r.Saturated {
		return fmt.Sprintf("Nothing is saturated at %s requests/s: the busiest part, %s, is at %.0f %% and would "+
			"saturate at about %s requests/s.",
			spell.Count(r.Rate), limit, 100*limit.Utilization, spell.Count(r.Capacity))
	}
	switch limit.Part {
	case PartProcessor:
		return fmt.Sprintf("The processor is the limit, for the net stage and the workers: at %s requests/s mcmw "+
			"uses %.2f of its %d processors. "+
			"More workers would not help; more processors (--procs) or another mcmw would.",
			spell.Count(r.Rate), ratio(w.Processor, w.Seconds), w.Processors)
	case PartServer:
		s := w.server(limit.Server)
		return fmt.Sprintf("Server %s is the limit, at about %s requests/s: its replies take %s, but only %s when it "+
			"is idle; "+
			"%.1f of %d workers wait for it. More workers would not help (%d are enough); a faster server or fewer "+
			"calls to it would.",
			limit.Server, spell.Count(r.Capacity), spell.Time(1e9*ratio(s.TypicalTime, s.Calls)),
			spell.Time(1e9*s.Fastest), ratio(s.Waited, w.Seconds), w.Workers, r.UsefulWorkers)
	}
	next := &r.Parts[r.next()]
	text := fmt.Sprintf("The workers are the limit: at %s requests/s %.0f %% of their slots are in use, and %.1f "+
		"requests wait. ",
		spell.Count(r.Rate), 100*limit.Utilization, queued)
	if r.UsefulWorkers <= w.Workers {
		return text +
			fmt.Sprintf("There are hardly more requests than workers, so more than %d workers would not help.",
				w.Workers)
	}
	text += fmt.Sprintf("More workers than the current %d would help, up to about %d", w.Workers, r.UsefulWorkers)
	if r.enough(w) > float64(r.UsefulWorkers) {
		return text + ": that is one for every request that clients now send at a time."
	}
	return text + fmt.Sprintf(": beyond that, %s is the limit, at about %s requests/s.", next,
		spell.Count(next.Capacity))
}

func (w *Window) server(name string) *Server {
	for i := range w.Servers {
		if w.Servers[i].Name == name {
			return &w.Servers[i]
		}
	}
	return &Server{}
}

// String returns the part's name in a sentence.
func (p *Part) String() string {
	switch p.Part {
	case PartServer:
		return "server " + p.Server
	case PartWorkers:
		return "the workers"
	}
	return "the processor"
}
