package queueing

// MM1 is the queue with Poisson arrivals, exponential service, one server and no bound: Jain, section 31.2 and box 31.1.
type MM1 struct {
	Lambda, Mu, Rho float64
	// Idle is 1 - rho, exact also where rho is close to 1.
	Idle float64
}

// NewMM1 returns the queue for an arrival rate and a service rate. It is stable for lambda < mu.
func NewMM1(lambda, mu float64) (MM1, error) {
	if err := positive("M/M/1: the arrival rate", lambda); err != nil {
		return MM1{}, err
	}
	if err := positive("M/M/1: the service rate", mu); err != nil {
		return MM1{}, err
	}
	if lambda >= mu {
		return MM1{}, unstable("M/M/1", lambda, mu, lambda/mu)
	}
	return MM1{Lambda: lambda, Mu: mu, Rho: lambda / mu, Idle: (mu - lambda) / mu}, nil
}

// MeanQueue is the mean number that wait: E[nq] = rho^2/(1-rho).
func (q MM1) MeanQueue() float64 { return q.Rho * q.Rho / q.Idle }

// MeanService is the mean number in service: E[ns] = rho.
func (q MM1) MeanService() float64 { return q.Rho }

// MeanResponse is the mean time in the system: E[r] = 1/(mu-lambda).
func (q MM1) MeanResponse() float64 { return 1 / (q.Mu - q.Lambda) }

// MeanWait is the mean time in the queue: E[w] = rho E[r].
func (q MM1) MeanWait() float64 { return q.Rho * q.MeanResponse() }
