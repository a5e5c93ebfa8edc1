package queueing

import "math"

// MeanService is the mean number in service: E[ns] = m rho = lambda/mu.
func (q MMm) MeanService() float64 { return q.Lambda / q.Mu }

// MeanJobs is the mean number in the system: E[n] = m rho + rho C/(1-rho).
func (q MMm) MeanJobs() float64 { return q.MeanService() + q.MeanQueue() }

// MM1 is the unbounded queue with Poisson arrivals, exponential service and one server: Jain, section 31.2 and box
// 31.1. Its variances and percentiles, which follow from the means of M/M/m, have vectors.
type MM1 struct{ MMm }

// NewMM1 returns the queue with an arrival rate lambda and a service rate mu. It is stable for lambda < mu.
func NewMM1(lambda, mu float64) (MM1, error) {
	q, err := NewMMm(lambda, mu, 1)
	return MM1{q}, err
}

// VarResponse is the variance of the time in the system, which is exponential: E[r]^2.
func (q MM1) VarResponse() float64 { return q.MeanResponse() * q.MeanResponse() }

// VarWait is the variance of the time in the queue: rho (2-rho) E[r]^2. Box 31.1 prints (1+rho-rho^2) rho^2/(1-rho)^2,
// which is the variance of the number in the queue.
func (q MM1) VarWait() float64 { return q.Rho * (1 + q.Idle) * q.VarResponse() }

// ResponsePercentile returns the time in the system that a share p of the customers does not exceed: -E[r] ln(1-p). It
// returns NaN unless 0 <= p < 1.
func (q MM1) ResponsePercentile(p float64) float64 {
	if !(p >= 0 && p < 1) {
		return math.NaN()
	}
	return -q.MeanResponse() * math.Log1p(-p)
}

// WaitPercentile returns the time in the queue that a share p of the customers does not exceed: E[r] ln(rho/(1-p)), at
// least 0. It returns NaN unless 0 <= p < 1.
func (q MM1) WaitPercentile(p float64) float64 {
	if !(p >= 0 && p < 1) {
		return math.NaN()
	}
	return max(0, q.MeanResponse()*math.Log(q.Rho/(1-p)))
}
