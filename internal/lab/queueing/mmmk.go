package queueing

// MMmK is the queue with Poisson arrivals, exponential service, m servers and room for K, those in service included: who
// finds it full is lost. Jain, section 31.4 and box 31.3. Mu is the rate of one server, Rho = lambda/(m mu), of what is offered, so
// it may be 1 or more. Means and percentiles are those of the accepted.
type MMmK struct {
	Lambda, Mu, Rho float64
	M, K            int

	states   states
	accepted float64 // probability that an arrival is not lost
	// found[j] is the probability that who is accepted must let j others finish before its service begins; more[j] that it
	// must let more than j finish. Both have an entry for every j that can be.
	found, more []float64
}

// NewMMmK returns the queue for an arrival rate, the service rate of one server, m servers, and room for k >= m.
func NewMMmK(lambda, mu float64, m, k int) (MMmK, error) {
	if err := positive("M/M/m/K: the arrival rate", lambda); err != nil {
		return MMmK{}, err
	}
	if err := positive("M/M/m/K: the service rate", mu); err != nil {
		return MMmK{}, err
	}
	if err := atLeast("M/M/m/K: the number of servers", m, 1); err != nil {
		return MMmK{}, err
	}
	if err := atLeast("M/M/m/K: the room, which includes the servers,", k, m); err != nil {
		return MMmK{}, err
	}
	if err := atMost("M/M/m/K: the room", k, maxStates); err != nil {
		return MMmK{}, err
	}
	a := lambda / mu
	q := MMmK{Lambda: lambda, Mu: mu, M: m, K: k, Rho: lambda / (float64(m) * mu)}
	q.states = birthDeath(k, func(n int) float64 { return a / float64(min(n, m)) })
	for _, p := range q.states.p[:k] {
		q.accepted += p
	}
	q.found, q.more = make([]float64, k-m+1), make([]float64, k-m+1)
	for n, p := range q.states.p[:k] {
		q.found[max(n-m+1, 0)] += p / q.accepted
	}
	for j := k - m; j > 0; j-- {
		q.more[j-1] = q.more[j] + q.found[j]
	}
	return q, nil
}

// P returns the probability of n in the system.
func (q MMmK) P(n int) float64 {
	if n < 0 || n > q.K {
		return 0
	}
	return q.states.p[n]
}

// Blocked is the probability that an arrival is lost: p(K), because Poisson arrivals see the states as they are.
func (q MMmK) Blocked() float64 { return q.P(q.K) }

// Throughput is the rate of the accepted, hence of the served: lambda (1 - p(K)).
func (q MMmK) Throughput() float64 { return q.Lambda * q.accepted }

// LossRate is the rate of the lost: lambda p(K).
func (q MMmK) LossRate() float64 { return q.Lambda * q.Blocked() }

// Utilization is the share of time in which one server is busy: throughput/(m mu).
func (q MMmK) Utilization() float64 { return clamp1(q.Rho * q.accepted) }

// AllBusy is the probability of m or more in the system.
func (q MMmK) AllBusy() float64 {
	return clamp1(q.states.mean(q.M, func(int) float64 { return 1 }))
}

// MeanJobs is the mean number in the system.
func (q MMmK) MeanJobs() float64 { return q.states.mean(1, func(n int) float64 { return float64(n) }) }

// VarJobs is the variance of the number in the system.
func (q MMmK) VarJobs() float64 {
	mean := q.MeanJobs()
	return q.states.mean(0, func(n int) float64 { return (float64(n) - mean) * (float64(n) - mean) })
}

// MeanQueue is the mean number that wait.
func (q MMmK) MeanQueue() float64 {
	return q.states.mean(q.M+1, func(n int) float64 { return float64(n - q.M) })
}

// VarQueue is the variance of the number that wait.
func (q MMmK) VarQueue() float64 {
	mean := q.MeanQueue()
	return q.states.mean(0, func(n int) float64 {
		d := float64(max(n-q.M, 0)) - mean
		return d * d
	})
}

// MeanService is the mean number in service.
func (q MMmK) MeanService() float64 {
	return q.states.mean(1, func(n int) float64 { return float64(min(n, q.M)) })
}

// MeanResponse is the mean time in the system: E[n]/throughput, by Little's law.
func (q MMmK) MeanResponse() float64 { return q.MeanJobs() / q.Throughput() }

// MeanWait is the mean time in the queue: E[nq]/throughput.
func (q MMmK) MeanWait() float64 { return q.MeanQueue() / q.Throughput() }

// VarWait is the variance of the time in the queue. Who must let j others finish waits for an Erlang distribution of j stages of
// rate m mu, whose variance is j/(m mu)^2.
func (q MMmK) VarWait() float64 {
	var mean, sum float64
	for j, p := range q.found {
		mean += float64(j) * p
	}
	for j, p := range q.found {
		d := float64(j) - mean
		sum += p * (float64(j) + d*d)
	}
	rate := float64(q.M) * q.Mu
	return sum / (rate * rate)
}

// VarResponse is the variance of the time in the system: 1/mu^2 + Var[w].
func (q MMmK) VarResponse() float64 { return 1/(q.Mu*q.Mu) + q.VarWait() }

// WaitAbove returns the probability that an accepted one waits longer than t. The servers, all busy meanwhile, finish by a
// Poisson process of rate m mu, so it is the sum over j of P(j finish in t) P(more than j are ahead).
func (q MMmK) WaitAbove(t float64) float64 {
	var sum float64
	first, finish := poisson(max(t, 0) * float64(q.M) * q.Mu)
	for i, p := range finish {
		if first+i < len(q.more) {
			sum += p * q.more[first+i]
		}
	}
	return clamp1(sum)
}

// ResponseAbove returns the probability that an accepted one is in the system longer than t. With the ticks of a Poisson
// process of rate m mu as the clock (uniformization; A. Jensen, Skandinavisk Aktuarietidskrift 36 (1953)), each tick lets one of those
// ahead finish, or, when none is, ends the service with probability 1/m.
func (q MMmK) ResponseAbove(t float64) float64 {
	first, ticks := poisson(max(t, 0) * float64(q.M) * q.Mu)
	stay := 1 - 1/float64(q.M)
	serving := q.found[0] // probability of being in service, and not finished, after j ticks
	var sum float64
	for j := range first + len(ticks) {
		var waiting float64
		if j < len(q.more) {
			waiting = q.more[j]
		}
		if j >= first {
			sum += ticks[j-first] * (serving + waiting)
		}
		serving *= stay
		if j+1 < len(q.found) {
			serving += q.found[j+1]
		}
	}
	return clamp1(sum)
}

// WaitPercentile returns the time in the queue that a share p of the accepted does not exceed. NaN where p is no share.
func (q MMmK) WaitPercentile(p float64) float64 {
	return quantile(p, 1/(float64(q.M)*q.Mu), q.WaitAbove)
}

// ResponsePercentile returns the time in the system that a share p of the accepted does not exceed. NaN where p is no
// share.
func (q MMmK) ResponsePercentile(p float64) float64 {
	return quantile(p, q.MeanResponse(), q.ResponseAbove)
}
