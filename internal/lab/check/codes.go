package check

// The codes of warnings. There are no others.
const (
	RunFailed           = "run_failed"
	InteractiveLaw      = "interactive_law_client"
	InteractiveLawInner = "interactive_law_middleware"
	LittleQueue         = "little_queue"
	StageSum            = "stage_sum"
	FlowClient          = "flow_client_middleware"
	FlowServers         = "flow_middleware_servers"
	NotStationary       = "not_stationary"
	WindowVariation     = "window_variation"
	GeneratorSaturated  = "generator_saturated"
	OtherLoad           = "foreign_load"
	Misses              = "misses"
	Errors              = "errors"
	AveragedRuns        = "averaged_runs"
	RepetitionVariation = "repetition_variation"
	TooFewRepetitions   = "too_few_repetitions"
)

// Code describes the code of a check.
type Code struct {
	Name string
	Set  bool   // the check is about the repetitions of a point, not about one run
	Help string // the condition that the check requires
}

// Codes has all codes, in the order in which the checks are made.
var Codes = []Code{
	{RunFailed, false, "the run ended as planned"},
	{InteractiveLaw, false, "clients: N = X (R + Z) to 5 %"},
	{InteractiveLawInner, false, "middleware: N = X (R + Z) to 10 % and one round-trip time, Z being the round-trip time and the clients' think time"},
	{LittleQueue, false, "queue: mean length = X times the mean time in it, to 10 % and half a request"},
	{StageSum, false, "the five stages add up to the middleware's response time, to 2 % and 1 µs"},
	{FlowClient, false, "clients and middlewares count the same throughput, to 3 %"},
	{FlowServers, false, "the servers get the requests that the middlewares send on, to 3 %"},
	{NotStationary, false, "no trend over the windows: at 1 % significance, or less than 5 % from the first to the last"},
	{WindowVariation, false, "the coefficient of variation of the throughput over the windows is at most 10 %, combined with the chance variation of counting few requests (root of the sum of squares)"},
	{GeneratorSaturated, false, "the load generator was not the limit"},
	{OtherLoad, false, "programs outside the experiment, and other virtual machines on the same hardware, used at most 10 % of the processor time in use, or 2 % of all processor time"},
	{Misses, false, "at most 0.1 % of the requested keys were missed"},
	{Errors, false, "no request was answered with an error, or not at all"},
	{AveragedRuns, false, "the run is one run, not an imported average of several"},
	{RepetitionVariation, true, "the coefficient of variation over the repetitions is at most 5 %"},
	{TooFewRepetitions, true, "a point has at least 2 complete runs"},
}

// Limits of the checks. All but counts are ratios.
const (
	// maxInteractive is the largest difference of the clients' response time from N/X - Z. In the reports' good runs it is 0.5 % (the 2016
	// report on throughput and replication, appendix A) to 3.5 % (the 2016 report on queueing models, table 12). It isn't 0 because some
	// requests are only partly in the measured window.
	maxInteractive = 0.05
	// maxInteractiveInner is the same for the middleware. Its Z is an estimate, because the round-trip time is measured without load. One
	// round-trip time is allowed in addition, for the increase under load (the 2018 report, section 4). Replies that wait for a middleware's
	// saturated upload, after its last time stamp, take longer than that.
	maxInteractiveInner = 0.10
	// maxLittle and minQueue: the length is sampled, the time in the queue is not. Below a mean of half a request a relative
	// error says nothing.
	maxLittle = 0.10
	minQueue  = 0.5 // requests
	// maxStages and minStages: the stages of each request add up exactly; the rest is rounding in outputs that are text.
	maxStages = 0.02
	minStages = 1e-6 // s
	// maxFlow: all parts answer the same requests, but their windows begin and end at slightly different times (up to 2 % in the 2018
	// report, appendix A).
	maxFlow = 0.03
	// significant and maxDrift must both be exceeded, because in long runs even a negligible drift is significant.
	significant = 0.01
	maxDrift    = 0.05
	// maxWindowVariation is for windows of a second, which include the short stalls of a shared machine.
	maxWindowVariation = 0.10
	minWindows         = 5
	// maxRepetitionVariation: with three repetitions it gives a 95 % interval of +-12 % of the mean; a wider one is useless for comparing.
	maxRepetitionVariation = 0.05
	minRepetitions         = 2
	// maxForeign is a share of the busy time, minForeign one of the total time, so that the background load of an idle system doesn't count
	// when the experiment uses little time, too. Good records on an idle machine have 1 to 4 % of the busy time: samplers, the lab, the
	// kernel's threads.
	maxForeign = 0.10
	minForeign = 0.02
	// maxMisses: a miss is cheaper than a hit; so few misses change no displayed digit.
	maxMisses = 0.001
)
