// Package erlang has the two formulas of A. K. Erlang that both the advice of a running middleware and the lab's models
// are made of. It is pure.
//
// Symbols: m servers; a offered traffic, arrival rate times service time, in servers.
package erlang

// B returns Erlang's B, the probability that all m servers are taken where a request that finds no free one is lost:
//
//	B(0) = 1, B(k) = a B(k-1) / (k + a B(k-1))
//
// The recurrence (D. L. Jagerman, "Some properties of the Erlang loss function", Bell System Technical Journal 53 (1974))
// adds and multiplies positive numbers alone, so it neither overflows nor cancels.
func B(a float64, m int) float64 {
	b := 1.0
	for k := 1; k <= m; k++ {
		b = a * b / (float64(k) + a*b)
	}
	return b
}

// C returns Erlang's C, the probability that all m servers are taken where a request that finds no free one waits, a < m:
//
//	C = (a^m/m!) (m/(m-a)) / (sum of a^k/k! for k = 0..m-1, + (a^m/m!) (m/(m-a)))
//
// (R. Jain, "The Art of Computer Systems Performance Analysis" (1991), section 31.4; L. Kleinrock, "Queueing Systems"
// volume 1 (1975), section 3.5.)
func C(a float64, m int) float64 {
	c, _ := Split(a, m, (float64(m)-a)/float64(m))
	return c
}

// Split returns Erlang's C and its complement, each without the cancellation of 1 minus the other. idle is 1 - a/m, which
// a caller that knows the rates can have more exactly than from a when it is close to 0.
//
//	C = B / (idle + (1-idle) B), 1-C = idle (1-B) / (idle + (1-idle) B)
func Split(a float64, m int, idle float64) (c, rest float64) {
	b := B(a, m)
	all := idle + (1-idle)*b
	return b / all, idle * (1 - b) / all
}
