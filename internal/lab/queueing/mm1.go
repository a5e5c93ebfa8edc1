package queueing

import (
	"cmp"
	"math"
)

// MM1 is the unbounded queue with Poisson arrivals, exponential service and one server: Jain, section 31.2 and box 31.1.
type MM1 struct {
	Lambda, Mu, Rho float64
	Idle            float64 // 1 - rho, accurate even if rho is close to 1
}

// NewMM1 returns the queue with an arrival rate lambda and a service rate mu. It is stable for lambda < mu.
func NewMM1(lambda, mu float64) (MM1, error) {
	if err := cmp.Or(positive("M/M/1: the arrival rate", lambda), positive("M/M/1: the service rate", mu)); err != nil {
		return MM1{}, err
	}
	if lambda >= mu {
		return MM1{}, unstable("M/M/1", lambda, mu, lambda/mu)
	}
	return MM1{Lambda: lambda, Mu: mu, Rho: lambda / mu, Idle: (mu - lambda) / mu}, nil
}

// MeanQueue is the mean number of waiting customers: E[nq] = rho^2/(1-rho).
func (q MM1) MeanQueue() float64 { return q.Rho * q.Rho / q.Idle }

// MeanService is the mean number in service: E[ns] = rho.
func (q MM1) MeanService() float64 { return q.Rho }

// MeanResponse is the mean time in the system: E[r] = 1/(mu-lambda).
func (q MM1) MeanResponse() float64 { return 1 / (q.Mu - q.Lambda) }

// VarResponse is the variance of the time in the system, which is exponential: E[r]^2.
func (q MM1) VarResponse() float64 { return q.MeanResponse() * q.MeanResponse() }

// MeanWait is the mean time in the queue: E[w] = rho E[r].
func (q MM1) MeanWait() float64 { return q.Rho * q.MeanResponse() }

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
