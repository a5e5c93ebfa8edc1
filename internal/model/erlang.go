package model

// ErlangC returns A. K. Erlang's C formula: the probability that all m servers are busy, in a system where a request
// that finds no free server waits. a < m is the offered traffic, arrival rate times service time, in servers. idle is 1
// - a/m; close to 0, a caller that knows the rates can compute it more exactly than from a.
//
//	C = (a^m/m!) (m/(m-a)) / (sum of a^k/k! for k = 0..m-1, + (a^m/m!) (m/(m-a)))
//	  = B / (idle + (1-idle) B)
//
// (R. Jain, "The Art of Computer Systems Performance Analysis" (1991), section 31.4; L. Kleinrock, "Queueing Systems"
// volume 1 (1975), section 3.5.)
func ErlangC(a float64, m int, idle float64) float64 {
	b := erlangB(a, m)
	return b / (idle + (1-idle)*b)
}

// erlangB returns Erlang's B formula: the probability that all m servers are busy, in a system where a request that
// finds no free server is lost:
//
//	B(0) = 1, B(k) = a B(k-1) / (k + a B(k-1))
//
// The recurrence (D. L. Jagerman, "Some properties of the Erlang loss function", Bell System Technical Journal 53
// (1974)) only adds and multiplies positive numbers, so there is no overflow and no cancellation.
func erlangB(a float64, m int) float64 {
	b := 1.0
	for k := 1; k <= m; k++ {
		b = a * b / (float64(k) + a*b)
	}
	return b
}
