package frame

import "mcmw/lab/record"

// Loop is a closed loop: N is the number of requests that the clients keep outstanding or think about, Z the time
// between a reply and the next request, in seconds. The interactive response time law holds for it: X = N/(R + Z), R =
// N/X - Z (Jain, "The Art of Computer Systems Performance Analysis", section 33.4).
type Loop struct{ N, Z float64 }

// LoopOf returns the loop of a run with the think time of the clients as Z; false for an open loop, which has no N, or
// if N is unknown.
func LoopOf(run record.Run) (l Loop, ok bool) {
	connections, ok := run.Number("connections")
	if OpenLoop(run) || !ok {
		return l, false
	}
	if pipeline, ok := run.Number("pipeline"); ok {
		connections *= pipeline
	}
	z, ok := run.Value(record.SourceClient, "think_time_mean")
	if !ok {
		z, _ = run.Number("think_time")
	}
	return Loop{connections, z}, connections > 0
}

// OpenLoop reports whether requests were sent by a schedule.
func OpenLoop(run record.Run) bool {
	rate, ok := run.Factors["rate"]
	return ok && rate != "" && rate != "0" && rate != "closed"
}

// Throughput returns X for a response time.
func (l Loop) Throughput(r float64) float64 { return l.N / (r + l.Z) }

// ResponseTime returns R for a throughput.
func (l Loop) ResponseTime(x float64) float64 { return l.N/x - l.Z }

// ByLaw returns the response time by the law with the throughput of a source, and the one that the clients measured;
// false for an open loop, or if a value was not measured.
func ByLaw(run record.Run, source string) (predicted, measured float64, ok bool) {
	l, closed := LoopOf(run)
	x, okX := run.Value(source, "throughput")
	measured, okR := run.Value(record.SourceClient, "response_time_mean")
	return l.ResponseTime(x), measured, closed && okX && okR && x > 0 && measured > 0
}
