package queueing

import "math"

// Capacity is the throughput that the network cannot exceed with any number of customers, and the number of the station that
// limits it: the least rate of a station at any number of customers up to n, over visits. +Inf and -1 where nothing limits.
func (n Network) Capacity(customers int) (x float64, station int) {
	x, station = math.Inf(1), -1
	for i, s := range n.Stations {
		if s.Kind == Delay || s.demand() == 0 {
			continue
		}
		best := 0.0
		for j := 1; j <= s.levels(customers); j++ {
			best = max(best, s.rate(j))
		}
		if limit := best / s.demand(); limit < x {
			x, station = limit, i
		}
	}
	return x, station
}
