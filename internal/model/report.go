package model

import (
	"math"
	"slices"
)

// The parts.
const (
	PartProcessor = "processor" // shared by the net stage, the workers and the replies
	PartWorkers   = "workers"
	PartServer    = "server"
)

// Saturated is the utilization at which a part counts as saturated.
const Saturated = 0.9

// Report is the model's result for a window. Rates are per second.
type Report struct {
	Window float64 `json:"window"` // s
	Rate   float64 `json:"rate"`   // answered requests, including those from memory
	// the fraction of Rate that was answered from memory, 0 to 1: workers and servers do not see it
	Hot      float64 `json:"hot"`
	Arrivals float64 `json:"arrivals"`
	Parts    []Part  `json:"parts"`
	// Bottleneck is the index in Parts of the part that saturates first; -1 if there was no load.
	Bottleneck int `json:"bottleneck"`
	// Saturated says whether the bottleneck is at its limit.
	Saturated bool `json:"saturated"`
	// Capacity is the rate of requests at which the bottleneck saturates; 0: unknown.
	Capacity float64 `json:"capacity"`
	// UsefulWorkers is the number of workers that can be busy before another part saturates; 0: unknown.
	UsefulWorkers int    `json:"usefulWorkers"`
	Laws          []Law  `json:"laws"`
	Wait          Wait   `json:"wait"`
	Advice        string `json:"advice"`
}

// Part is one part of the middleware.
type Part struct {
	Part        string  `json:"part"`
	Server      string  `json:"server"` // of PartServer
	Utilization float64 `json:"utilization"`
	Capacity    float64 `json:"capacity"` // requests per second; 0: unknown
}

// Law compares a sampled mean number of requests with the number by Little's law.
type Law struct {
	Law       string  `json:"law"` // "queue" or "service"
	Measured  float64 `json:"measured"`
	Predicted float64 `json:"predicted"`
}

// Wait compares the mean wait in the queue with that of an M/M/m queue, ns. Clients that each wait for a reply before
// they send again are not a Poisson process: under high load they wait less than predicted.
type Wait struct {
	Measured  float64 `json:"measured"`
	Predicted float64 `json:"predicted"` // 0: no steady state
}

// Analyse returns the model's result for w.
func Analyse(w *Window) *Report {
	queued, serving := Little(w.QueueTime, w.Seconds), Little(w.WorkerTime+w.ServerTime+w.ReplyTime, w.Seconds)
	r := &Report{
		Window: w.Seconds, Rate: ratio(w.Answered+w.Hot, w.Seconds), Hot: ratio(w.Hot, w.Answered+w.Hot),
		Arrivals: ratio(w.Arrived, w.Seconds), Bottleneck: -1,
		Laws: []Law{
			{Law: "queue", Measured: ratio(w.SampledQueue, w.Samples), Predicted: queued},
			{Law: "service", Measured: ratio(w.SampledService, w.Samples), Predicted: serving},
		},
	}
	add := func(part, server string, u float64) {
		r.Parts = append(r.Parts, Part{Part: part, Server: server, Utilization: u, Capacity: Capacity(r.Rate, u)})
	}
	add(PartProcessor, "", min(ratio(w.Processor, w.Seconds*float64(w.Processors)), 1))
	add(PartWorkers, "", WorkerUtilization(serving, w.Workers, w.Depth))
	for i := range w.Servers {
		s := &w.Servers[i]
		add(PartServer, s.Name, ServerUtilization(ratio(s.TypicalTime, s.Calls), s.Fastest, ratio(s.Waited, w.Seconds),
			serving))
	}
	if w.Answered+w.Hot > 0 {
		r.Bottleneck = r.first()
		limit := &r.Parts[r.Bottleneck]
		r.Saturated, r.Capacity = limit.Utilization >= Saturated, limit.Capacity
	}
	if w.Answered > 0 {
		slots := w.Workers * max(w.Depth, 1)
		service := ratio(serving, ratio(w.Answered, w.Seconds))
		r.Wait = Wait{
			Measured:  ratio(w.QueueTime, w.Answered) * 1e9,
			Predicted: WaitMMm(r.Arrivals, service, slots) * 1e9,
		}
		r.UsefulWorkers = r.usefulWorkers(w, queued+serving)
	}
	r.Advice = r.advice(w, queued)
	return r
}

// first returns the index of the part that saturates first. If several are saturated, it is the one that makes the
// others look saturated: without free processors everything takes longer, and workers that wait for a server are busy.
func (r *Report) first() int {
	for _, part := range []string{PartProcessor, PartServer} {
		if i := r.highest(part); i >= 0 && r.Parts[i].Utilization >= Saturated {
			return i
		}
	}
	return r.highest(PartProcessor, PartWorkers, PartServer)
}

// highest returns the index of the part of these kinds with the highest utilization, -1 if there is none.
func (r *Report) highest(kinds ...string) int {
	found := -1
	for i := range r.Parts {
		p := &r.Parts[i]
		if slices.Contains(kinds, p.Part) && (found < 0 || p.Utilization > r.Parts[found].Utilization) {
			found = i
		}
	}
	return found
}

// next returns the index of the part that would be the bottleneck if there were enough workers.
func (r *Report) next() int { return r.highest(PartProcessor, PartServer) }

// rounding is the largest rounding error above a whole number.
const rounding = 1e-9

// enough returns the number of workers with which another part becomes the limit. By Little's law they serve X S
// requests at a time, where X is the rate at which that part saturates, without answers from memory, and S the time a
// request is in service. Beyond the part's limit S only grows, so if the part is at its limit, S does not include the
// wait for servers.
func (r *Report) enough(w *Window) float64 {
	limit := &r.Parts[r.next()]
	service := ratio(w.WorkerTime+w.ServerTime+w.ReplyTime, w.Answered)
	if limit.Utilization >= Saturated {
		service = ratio(w.WorkerTime+w.ReplyTime, w.Answered) + w.unloaded()
	}
	return math.Ceil(limit.Capacity*(1-r.Hot)*service/float64(max(w.Depth, 1)) - rounding)
}

// usefulWorkers returns the number of workers that is enough, but not more than there are requests.
func (r *Report) usefulWorkers(w *Window, present float64) int {
	enough := r.enough(w)
	if enough == 0 {
		return 0
	}
	return max(int(min(enough, math.Ceil(present/float64(max(w.Depth, 1))-rounding))), 1)
}

// unloaded returns the time that a request would wait for its servers if it were the only one, s.
func (w *Window) unloaded() float64 {
	var fastest, calls float64
	for i := range w.Servers {
		fastest += w.Servers[i].Fastest * w.Servers[i].Calls
		calls += w.Servers[i].Calls
	}
	return ratio(fastest, calls)
}
