package queueing

import (
	"math"

	"mcmw/internal/erlang"
)

// MMm is the queue with Poisson arrivals, exponential service, m servers and no bound: Jain, section 31.3 and box 31.2. Mu is
// the rate of one server, Rho = lambda/(m mu).
type MMm struct {
	Lambda, Mu, Rho float64
	M               int
	// Idle is 1 - rho, exact also where rho is close to 1.
	Idle float64
	// C is the probability of queueing, Erlang's C (Jain's varrho); None that of finding a free server, 1 - C.
	C, None float64

	below states // probabilities of 0 to m-1 in the system, given that a server is free
}

// NewMMm returns the queue for an arrival rate, the service rate of one server, and m servers. It is stable for
// lambda < m mu.
func NewMMm(lambda, mu float64, m int) (MMm, error) {
	if err := positive("M/M/m: the arrival rate", lambda); err != nil {
		return MMm{}, err
	}
	if err := positive("M/M/m: the service rate", mu); err != nil {
		return MMm{}, err
	}
	if err := atLeast("M/M/m: the number of servers", m, 1); err != nil {
		return MMm{}, err
	}
	if err := atMost("M/M/m: the number of servers", m, maxStates); err != nil {
		return MMm{}, err
	}
	capacity := float64(m) * mu
	// The difference is rounded once, not twice, so its digits are those that the input determines.
	spare := math.FMA(float64(m), mu, -lambda)
	if spare <= 0 {
		return MMm{}, unstable("M/M/m", lambda, capacity, lambda/capacity)
	}
	a := lambda / mu
	q := MMm{Lambda: lambda, Mu: mu, M: m, Rho: lambda / capacity, Idle: spare / capacity}
	q.C, q.None = erlang.Split(a, m, q.Idle)
	q.below = birthDeath(m-1, func(n int) float64 { return a / float64(n) })
	return q, nil
}

// P returns the probability of n in the system: for n >= m, C (1-rho) rho^(n-m); for n < m, p(0) (m rho)^n/n!.
func (q MMm) P(n int) float64 {
	switch {
	case n < 0:
		return 0
	case n < q.M:
		return q.None * q.below.p[n]
	}
	return q.C * q.Idle * math.Pow(q.Rho, float64(n-q.M))
}

// AtLeast returns the probability of n or more in the system.
func (q MMm) AtLeast(n int) float64 {
	if n >= q.M {
		return q.C * math.Pow(q.Rho, float64(n-q.M))
	}
	sum := q.C
	for k := q.M - 1; k >= max(n, 0); k-- {
		sum += q.None * q.below.p[k]
	}
	return clamp1(sum)
}

// Utilization is the share of time in which one server is busy: U = rho.
func (q MMm) Utilization() float64 { return q.Rho }

// MeanService is the mean number in service: E[ns] = m rho = lambda/mu.
func (q MMm) MeanService() float64 { return q.Lambda / q.Mu }

// MeanQueue is the mean number that wait: E[nq] = rho C/(1-rho).
func (q MMm) MeanQueue() float64 { return q.Rho * q.C / q.Idle }

// VarQueue is the variance of the number that wait: rho C (1+rho-rho C)/(1-rho)^2.
func (q MMm) VarQueue() float64 { return q.Rho * q.C * (1 + q.Rho*q.None) / (q.Idle * q.Idle) }

// MeanJobs is the mean number in the system: E[n] = m rho + rho C/(1-rho).
func (q MMm) MeanJobs() float64 { return q.MeanService() + q.MeanQueue() }

// VarJobs is the variance of the number in the system: m rho + rho C ((1+rho-rho C)/(1-rho)^2 + m).
func (q MMm) VarJobs() float64 {
	return q.MeanService() + q.VarQueue() + q.MeanService()*q.C
}

// MeanWait is the mean time in the queue: E[w] = C/(m mu (1-rho)).
func (q MMm) MeanWait() float64 { return q.C / q.spare() }

// VarWait is the variance of the time in the queue: C (2-C)/(m mu (1-rho))^2.
func (q MMm) VarWait() float64 { return q.C * (1 + q.None) / (q.spare() * q.spare()) }

// MeanResponse is the mean time in the system: E[r] = 1/mu + E[w].
func (q MMm) MeanResponse() float64 { return 1/q.Mu + q.MeanWait() }

// VarResponse is the variance of the time in the system. What is served first come, first served has waits
// independent of their service times: 1/mu^2 + Var[w].
func (q MMm) VarResponse() float64 { return 1/(q.Mu*q.Mu) + q.VarWait() }

// spare is the rate by which the servers are faster than the arrivals: m mu (1-rho).
func (q MMm) spare() float64 { return math.FMA(float64(q.M), q.Mu, -q.Lambda) }

// WaitPercentile returns the time in the queue that a share p does not exceed: ln(C/(1-p))/(m mu (1-rho)), 0 at least. NaN
// where p is no share.
func (q MMm) WaitPercentile(p float64) float64 {
	if share(p) != nil {
		return math.NaN()
	}
	return max(0, math.Log(q.C/(1-p))/q.spare())
}

// ResponseAbove returns the probability that the time in the system exceeds r. With b = m mu (1-rho) it is
//
//	exp(-mu r) + C mu (exp(-b r) - exp(-mu r))/(mu-b)
//
// (Kleinrock, "Queueing Systems" volume 1, section 3.5, from the distribution of the wait), and where b = mu the limit
// exp(-mu r) (1 + C mu r).
func (q MMm) ResponseAbove(r float64) float64 {
	if r <= 0 {
		return 1
	}
	b := q.spare()
	x := math.Abs(q.Mu-b) * r
	ratio := 1.0 // (1 - exp(-x))/x
	if x > 0 {
		ratio = -math.Expm1(-x) / x
	}
	return clamp1(math.Exp(-q.Mu*r) + q.C*q.Mu*r*math.Exp(-min(q.Mu, b)*r)*ratio)
}

// ResponsePercentile returns the time in the system that a share p does not exceed, the root of ResponseAbove. NaN where p
// is no share.
func (q MMm) ResponsePercentile(p float64) float64 {
	return quantile(p, q.MeanResponse(), q.ResponseAbove)
}
