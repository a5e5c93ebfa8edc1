package model

// Little returns the mean number of requests at a part, by Little's law:
//
//	N = X R = sum of their times there / T
//
// J. D. C. Little, "A proof for the queuing formula L = lambda W", Operations Research 9 (1961). It holds for every part and
// every order of service, but for the requests that are there when the window begins or ends.
func Little(times, seconds float64) float64 { return ratio(times, seconds) }

// WorkerUtilization returns how much of the workers' places is in use. Each of m workers serves up to d requests at a
// time, and n are in service on the mean:
//
//	U = n / (m d)
//
// With d = 1 it is the utilization law, U = X S, S being the service time of a worker.
func WorkerUtilization(n float64, m, d int) float64 { return min(ratio(n, float64(m)*float64(d)), 1) }

// Noise is the duration of a call, s, below which it depends more on the scheduling of processes on one machine than on the server.
const Noise = 50e-6

// ServerUtilization estimates the utilization of a server from outside. A call takes r, and r0 when no other call precedes
// it; a call that arrives finds q others. By the arrival theorem (Jain, section 34.2) r = r0 + D q, where D is what each
// call occupies the server for; so with n calls there and k requests in service altogether, q = n (k-1)/k (P. J.
// Schweitzer's approximation) and
//
//	D = (r - r0) / q
//	U = X D = (n / r) (r - r0) / q = (1 - r0/r) k/(k-1)
//
// It cannot be more than if all of r were queueing, r = D (1 + q), with n = waiting, the mean number of workers that stand
// still for the server:
//
//	U <= n / (1 + n (k-1)/k)
//
// A server that is merely far away has r = r0, and U = 0; for one that is both far away and in use it
// is too low, because what is on its way does not queue. It is an estimate, good enough to tell a server at its limit
// from one that is not; k is taken as 2 at least, and times below Noise are taken as Noise.
func ServerUtilization(r, r0, waiting, k float64) float64 {
	r, r0, k = max(r, Noise), max(r0, Noise), max(k, 2)
	return min(max((1-r0/r)*k/(k-1), 0), waiting/(1+waiting*(k-1)/k), 1)
}

// Capacity returns the throughput at which a part with utilization u at throughput x saturates: by the utilization law
// U = X D, and U is 1 at most, so
//
//	X <= 1/D = x/u
//
// (Jain, section 33.6). 0 means that it is not known.
func Capacity(x, u float64) float64 { return ratio(x, u) }

// WaitMMm returns the mean wait in the queue, s, of an M/M/m queue: requests arrive at lambda per second and occupy one of m
// places for service seconds each.
//
//	W = C service / (m - a), a = lambda service
//
// 0 means that there is none: a queue with a >= m grows without end.
func WaitMMm(lambda, service float64, m int) float64 {
	a := lambda * service
	if a >= float64(m) {
		return 0
	}
	return ErlangC(a, m, 1-a/float64(m)) * service / (float64(m) - a)
}

// ratio returns a/b, and 0 where b is 0.
func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}
