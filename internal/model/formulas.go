// Package model computes, from the measurements of a window, the utilization of each part of the middleware, which part
// saturates first, and at which rate of requests. It is pure: no clock, no socket, no metric.
//
// The parts are the processor (which the net stage, the workers and the replies share), the workers, and each server.
// The formulas are those of operational analysis, which hold for every system that can be observed, whatever its
// distributions: P. J. Denning and J. P. Buzen, "The operational analysis of queueing network models", ACM Computing
// Surveys 10 (1978); R. Jain, "The Art of Computer Systems Performance Analysis" (1991), chapters 31 and 33. Two
// formulas are models, and their comments say so: the utilization of a server, which is seen from outside, and the wait
// of an M/M/m queue.
//
// Symbols: T length of the window, s; X throughput, requests/s; U utilization, 0 to 1; R time at a part, s; N mean
// number of requests there.
package model

// Little returns the mean number of requests at a part, by Little's law:
//
//	N = X R = sum of their times there / T
//
// J. D. C. Little, "A proof for the queuing formula L = lambda W", Operations Research 9 (1961). It holds for every
// part and every order of service, except for requests that are at the part when the window begins or ends.
func Little(times, seconds float64) float64 { return ratio(times, seconds) }

// WorkerUtilization returns the part of the workers' slots that is in use. Each of m workers serves up to d requests at
// a time, and on average n requests are in service:
//
//	U = n / (m d)
//
// With d = 1 it is the utilization law, U = X S, S being the service time of a worker.
func WorkerUtilization(n float64, m, d int) float64 { return min(ratio(n, float64(m)*float64(d)), 1) }

// Noise is the duration of a call, s, below which it depends more on the scheduling of processes on one machine than on
// the server.
const Noise = 50e-6

// ServerUtilization estimates the utilization of a server from outside. A call takes r, and r0 if no other call is
// before it; an arriving call finds q others. By the arrival theorem (Jain, section 34.2) r = r0 + D q, where D is the
// time for which each call occupies the server. So with n calls at the server and k requests in service in total, q = n
// (k-1)/k (P. J. Schweitzer's approximation) and
//
//	D = (r - r0) / q
//	U = X D = (n / r) (r - r0) / q = (1 - r0/r) k/(k-1)
//
// It is at most the value for the case that all of r is queueing, r = D (1 + q), with n = waiting, the mean number of
// workers that are blocked on the server:
//
//	U <= n / (1 + n (k-1)/k)
//
// A server that is merely far away has r = r0, and U = 0. For a server that is both far away and busy the estimate is
// too low, because calls on their way do not queue. It is good enough to tell a server at its limit from one that is
// not. k counts as at least 2, and times below Noise count as Noise.
func ServerUtilization(r, r0, waiting, k float64) float64 {
	r, r0, k = max(r, Noise), max(r0, Noise), max(k, 2)
	return min(max((1-r0/r)*k/(k-1), 0), waiting/(1+waiting*(k-1)/k), 1)
}

// Capacity returns the throughput at which a part with utilization u at throughput x saturates: by the utilization law
// U = X D, and U is 1 at most, so
//
//	X <= 1/D = x/u
//
// (Jain, section 33.6). 0 means unknown.
func Capacity(x, u float64) float64 { return ratio(x, u) }

// WaitMMm returns the mean wait in an M/M/m queue, s: requests arrive at lambda per second, and each occupies one of m
// servers for service seconds.
//
//	W = C service / (m - a), a = lambda service
//
// It returns 0 if there is no steady state: with a >= m the queue grows without bound.
func WaitMMm(lambda, service float64, m int) float64 {
	a := lambda * service
	if a >= float64(m) {
		return 0
	}
	return ErlangC(a, m, 1-a/float64(m)) * service / (float64(m) - a)
}

// ratio returns a/b, or 0 if b is 0.
func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

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
