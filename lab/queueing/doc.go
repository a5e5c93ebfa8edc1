// Package queueing computes single queues and closed networks of queues. Its functions are pure.
//
//	MMm         one station with Poisson arrivals and exponential service
//	Network     a closed network with one class of customers: exact
//	Multiclass  a closed network with classes of customers: exact for small populations, Linearizer for larger ones
//
// # Symbols
//
// They are those of R. Jain, "The Art of Computer Systems Performance Analysis" (1991), chapters 30 to 36, which the
// comments cite by section: lambda arrival rate; mu service rate of one server; m servers; rho traffic intensity; N
// customers; Z think time; V visits per pass through the system; S service time of a visit; D demand; X throughput; U
// utilization; Q mean number of customers at a station, waiting and in service; R response time.
//
// Three operational laws hold for every system, whatever its distributions (Jain, chapter 33; P. J. Denning and J. P.
// Buzen, "The operational analysis of queueing network models", ACM Computing Surveys 10 (1978)): demand D = V S,
// forced flow Xi = Vi X, utilization U = X D.
//
// # Units
//
// All times have the same unit, which may be any; rates are per that unit. The lab's commands use seconds.
//
// # Accuracy
//
// Results have relative errors of at most 1e-9, wherever the input determines them that well. All sums have positive
// terms: nothing is the difference of two nearly equal numbers, which makes the textbook recurrence for stations of
// several servers return negative throughputs. Numbers beyond the exponents of a float64, such as the constants of a
// network of 1,000 customers, have an exponent of their own (see wide).
//
// Tests compare with 65 reference cases of 60-digit arithmetic (testdata/queueing_vectors.json) and, for 10,000 servers
// and for 1,000 customers at 256 servers, with sums of 200 and more bits.
//
//	M/M/1, M/M/m          1 - rho comes from m mu - lambda, rounded once; Erlang's C has a formula of positive terms, from the
//	                      recurrence of Erlang's B
//	closed networks       Buzen's convolution; the network without a station is combined from the stations before and after it
//	classes, exact        the same with vectors of customers (Reiser and Kobayashi)
//	classes, approximate  Linearizer (errors mostly below one percent); a station of m servers is a server m times as fast and a
//	                      delay (Seidmann)
//
// Invalid input and unstable queues return an error that names the value.
package queueing
