package check

// Codes of warnings: a closed list.
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

// Code is the code of a check with what it asks for.
type Code struct {
	Name string
	Set  bool   // it is about the repetitions of a point, not about one run
	Help string // the rule
}

// Codes are all codes there are, in the order in which the checks are made.
var Codes = []Code{
	{RunFailed, false, "the run ended as planned"},
	{InteractiveLaw, false, "clients: N = X (R + Z) to 5 %"},
	{InteractiveLawInner, false, "middleware: N = X (R + Z) to 10 % and one round-trip time, Z being the round-trip time and the clients' think time"},
	{LittleQueue, false, "queue: mean length = X times the mean time in it, to 10 % and half a request"},
	{StageSum, false, "the five stages add up to the middleware's response time, to 2 % and 1 µs"},
	{FlowClient, false, "clients and middlewares count the same throughput, to 3 %"},
	{FlowServers, false, "the servers get the requests that the middlewares send on, to 3 %"},
	{NotStationary, false, "no trend over the windows: at 1 % significance, or less than 5 % from the first to the last"},
	{WindowVariation, false, "the coefficient of variation of the throughput over the windows is at most 10 %, beyond what counting few requests gives"},
	{GeneratorSaturated, false, "the load generator was not the limit"},
	{OtherLoad, false, "others than the experiment used at most 10 % of the processor time in use, or 2 % of what there is"},
	{Misses, false, "at most 0.1 % of the keys asked for were missed"},
	{Errors, false, "no request was answered with an error, or not at all"},
	{AveragedRuns, false, "it is one run, not the average of several"},
	{RepetitionVariation, true, "the coefficient of variation over the repetitions is at most 5 %"},
	{TooFewRepetitions, true, "a point has at least 2 complete runs"},
}

// Limits of the checks. All but counts are ratios.
const (
	// maxInteractive is how far the clients' response time may be from N/X - Z. In the reports' good runs it is from 0.5 % (the 2016
	// report on throughput and replication, appendix A) to 3.5 % (the 2016 report on queueing models, table 12); a measured
	// window cuts through requests at its edges, so that it isn't 0.
	maxInteractive = 0.05
	// maxInteractiveInner is the same for the middleware, whose Z is estimated: the round-trip time is measured without load. One
	// round-trip time is allowed on top, for what load adds to it (the 2018 report, section 4). Replies that wait for a middleware's full upload, behind
	// its clock, take longer.
	maxInteractiveInner = 0.10
	// maxLittle and minQueue: the length is sampled, the time in the queue is not; below half a request on the mean a relative
	// error says nothing.
	maxLittle = 0.10
	minQueue  = 0.5 // requests
	// maxStages and minStages: each request's stages add up exactly; what remains is rounding where times are written as text.
	maxStages = 0.02
	minStages = 1e-6 // s
	// maxFlow: all parts answer the same requests, but begin and end their windows at slightly different moments (the 2018
	// report, appendix A, has up to 2 %).
	maxFlow = 0.03
	// significant and maxDrift: both must be exceeded, because in long runs a drift that changes no conclusion is significant, too.
	significant = 0.01
	maxDrift    = 0.05
	// maxWindowVariation is for windows of a second, which contain the short stalls of a shared machine.
	maxWindowVariation = 0.10
	minWindows         = 5
	// maxRepetitionVariation: with three repetitions it makes a 95 % interval of +-12 % of the mean; more is useless for comparing.
	maxRepetitionVariation = 0.05
	minRepetitions         = 2
	// maxForeign and minForeign: of the time in use, and of the time there is, so that the little that any system does counts nothing where the
	// experiment does little, too. Good records on an idle machine have 1 to 4 % of the time in use: samplers, the lab, the kernel's own threads.
	maxForeign = 0.10
	minForeign = 0.02
	// maxMisses: a miss is cheaper than a hit; so few change no figure that is shown.
	maxMisses = 0.001
)
