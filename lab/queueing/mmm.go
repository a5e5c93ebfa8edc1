package queueing

import (
	"cmp"
	"fmt"
	"math"

	"mcmw/internal/model"
)

// MMm is the unbounded queue with Poisson arrivals, exponential service and m servers: Jain, section 31.3 and box 31.2.
// Mu is the service rate of one server, Rho = lambda/(m mu).
type MMm struct {
	Lambda, Mu, Rho float64
	M               int
	Idle            float64 // 1 - rho, accurate even if rho is close to 1
	C               float64 // probability of queueing: Erlang's C, Jain's varrho
}

// NewMMm returns the queue with an arrival rate lambda and m servers with a service rate mu each. It is stable for
// lambda < m mu.
func NewMMm(lambda, mu float64, m int) (MMm, error) {
	err := cmp.Or(positive("M/M/m: the arrival rate", lambda), positive("M/M/m: the service rate", mu),
		atLeast("M/M/m: the number of servers", m, 1))
	if err != nil {
		return MMm{}, err
	}
	capacity := float64(m) * mu
	q := MMm{Lambda: lambda, Mu: mu, M: m, Rho: lambda / capacity}
	if q.spare() <= 0 {
		return MMm{},
			fmt.Errorf("M/M/m: %w: the arrival rate is %v, the servers finish at most %v per unit of time (rho = %v, "+
				"expected below 1)",
				ErrUnstable, lambda, capacity, q.Rho)
	}
	q.Idle = q.spare() / capacity
	q.C = model.ErlangC(lambda/mu, m, q.Idle)
	return q, nil
}

// MeanQueue is the mean number of waiting customers: E[nq] = rho C/(1-rho).
func (q MMm) MeanQueue() float64 { return q.Rho * q.C / q.Idle }

// MeanWait is the mean time in the queue: E[w] = C/(m mu (1-rho)).
func (q MMm) MeanWait() float64 { return q.C / q.spare() }

// MeanResponse is the mean time in the system: E[r] = 1/mu + E[w].
func (q MMm) MeanResponse() float64 { return 1/q.Mu + q.MeanWait() }

// spare is the difference between the servers' capacity and the arrival rate: m mu (1-rho). It is rounded once, so it
// is as accurate as the input permits.
func (q MMm) spare() float64 { return math.FMA(float64(q.M), q.Mu, -q.Lambda) }
