package queueing

import "math"

// MM1 is the unbounded queue with Poisson arrivals, exponential service and one server: Jain, section 31.2 and box 31.1. In addition to the
// means of M/M/m it has variances and percentiles.
type MM1 struct{ MMm }

// NewMM1 returns the queue with an arrival rate lambda and a service rate mu. It is stable for lambda < mu.
func NewMM1(lambda, mu float64) (MM1, error) {
	q, err := NewMMm(lambda, mu, 1)
	return MM1{q}, err
}

// VarResponse is the variance of the time in the system, which is exponential: E[r]^2.
func (q MM1) VarResponse() float64 { return q.MeanResponse() * q.MeanResponse() }

// VarWait is the variance of the time in the queue: rho (2-rho) E[r]^2. Box 31.1 prints (1+rho-rho^2) rho^2/(1-rho)^2, which
// is the variance of the number in the queue.
func (q MM1) VarWait() float64 { return q.Rho * (1 + q.Idle) * q.VarResponse() }

// ResponsePercentile returns the time in the system that a share p of the customers does not exceed: -E[r] ln(1-p). It returns NaN
// unless 0 <= p < 1.
func (q MM1) ResponsePercentile(p float64) float64 {
	if !(p >= 0 && p < 1) {
		return math.NaN()
	}
	return -q.MeanResponse() * math.Log1p(-p)
}

// WaitPercentile returns the time in the queue that a share p of the customers does not exceed: E[r] ln(rho/(1-p)), at least 0.
// It returns NaN unless 0 <= p < 1.
func (q MM1) WaitPercentile(p float64) float64 {
	if !(p >= 0 && p < 1) {
		return math.NaN()
	}
	return max(0, q.MeanResponse()*math.Log(q.Rho/(1-p)))
}
