package check

// The codes of warnings. There are no others. docs/checks.md describes them.
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

// Limits of the checks. All but counts are ratios.
const (
	// maxInteractive is the largest difference of the clients' response time from N/X - Z. In the reports' good runs it
	// is 0.5 % (the 2016 report on throughput and replication, appendix A) to 3.5 % (the 2016 report on queueing
	// models, table 12). It isn't 0 because some requests are only partly in the measured window.
	maxInteractive = 0.05
	// maxInteractiveInner is the same for the middleware. Its Z is an estimate, because the round-trip time is measured
	// without load. One round-trip time is allowed in addition, for the increase under load (the 2018 report, section
	// 4). Replies that wait for a middleware's saturated upload, after its last time stamp, take longer than that.
	maxInteractiveInner = 0.10
	// maxLittle and minQueue: the length is sampled, the time in the queue is not. Below a mean of half a request a
	// relative error says nothing.
	maxLittle = 0.10
	minQueue  = 0.5 // requests
	// maxStages and minStages: the stages of each request add up exactly; the rest is rounding in outputs that are
	// text.
	maxStages = 0.02
	minStages = 1e-6 // s
	// maxFlow: all parts answer the same requests, but their windows begin and end at slightly different times (up to 2
	// % in the 2018 report, appendix A).
	maxFlow = 0.03
	// significant and maxDrift must both be exceeded, because in long runs even a negligible drift is significant.
	significant = 0.01
	maxDrift    = 0.05
	// maxWindowVariation is for windows of a second, which include the short stalls of a shared machine.
	maxWindowVariation = 0.10
	minWindows         = 5
	// maxRepetitionVariation: with three repetitions it gives a 95 % interval of +-12 % of the mean; a wider one is
	// useless for comparing.
	maxRepetitionVariation = 0.05
	minRepetitions         = 2
	// maxForeign is a share of the busy time, minForeign one of the total time, so that the background load of an idle
	// system doesn't count when the experiment uses little time, too. Good records on an idle machine have 1 to 4 % of
	// the busy time: samplers, the lab, the kernel's threads.
	maxForeign = 0.10
	minForeign = 0.02
	// maxMisses: a miss is cheaper than a hit; so few misses change no displayed digit.
	maxMisses = 0.001
)
