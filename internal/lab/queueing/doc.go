// Package queueing has the mathematics of queues: single stations, closed networks and laws. It is pure: no clock, no
// randomness, no input or output.
//
//	MM1, MMm    one station with Poisson arrivals and exponential service
//	Network     a closed network of customers that circulate, one class: exact
//	Multiclass  a closed network with classes: exact for small populations, Linearizer beyond
//	Demand, ForcedFlow, UtilizationLaw  operational laws
//
// # Symbols
//
// They are those of R. Jain, "The Art of Computer Systems Performance Analysis" (1991), chapters 30 to 36, which the
// comments cite by section: lambda arrival rate; mu service rate of one server; m servers; rho traffic intensity;
// N customers; Z think time; V visits per pass through the system; S service time of a visit; D = V S demand;
// X throughput; U utilization; Q mean number at a station, waiting and in service; R response time.
//
// # Units
//
// Any unit of time will do, the same everywhere: rates are per that unit. The lab's commands use seconds.
//
// # Accuracy
//
// Results are meant to be right to 1e-9 of their value wherever the input determines them so well. Sums are of positive terms:
// nothing is computed as the difference of two nearly equal numbers, which is what makes the textbook recurrence for stations
// of several servers return negative throughputs. Numbers that a float64 has no exponent for, as the constants of a
// network of 1,000 customers, are kept with an exponent of their own.
//
// Tests compare with 65 reference cases of 60-digit arithmetic (testdata/queueing_vectors.json) and, for 10,000 servers and for
// 1,000 customers at 256 servers, with sums of 200 and more bits.
//
//	M/M/1, M/M/m          1 - rho comes from m mu - lambda, rounded once; Erlang's C has a formula of positive terms, from the
//	                      recurrence of Erlang's B
//	closed networks       Buzen's convolution; networks without one station are combined from those before and behind it
//	classes, exact        the same with vectors of customers (Reiser and Kobayashi)
//	classes, approximate  Linearizer (errors mostly below one percent); a station of m servers is a server m times as fast and a
//	                      delay (Seidmann); load-dependent stations are refused
//
// Input that makes no sense, and queues that grow without end, are refused with an error that names the value.
package queueing
