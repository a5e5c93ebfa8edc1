package queueing_test

import (
	"fmt"

	"mcmw/lab/queueing"
)

// The network of the 2018 report, figure 29, with one middleware and write-only load. Times are in milliseconds,
// throughputs per millisecond.
func ExampleNetwork_Solve() {
	n := queueing.Network{Stations: []queueing.Station{
		{Name: "network to", Kind: queueing.Delay, Visits: 1, Service: 0.916},
		{Name: "net thread", Kind: queueing.Queue, Visits: 1, Service: 0.029},
		{Name: "workers", Kind: queueing.Multi, Visits: 1, Service: 5.147, Servers: 64},
		{Name: "network from", Kind: queueing.Delay, Visits: 1, Service: 0.916},
	}}
	for _, clients := range []int{6, 48, 96, 288} {
		s, err := n.Solve(clients)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%3d clients: %5.0f ops/s, %6.3f ms; workers used %.2f\n", clients, 1000*s.X, s.R, s.Stations[2].U)
	}
	// Output:
	//   6 clients:   856 ops/s,  7.009 ms; workers used 0.07
	//  48 clients:  6843 ops/s,  7.015 ms; workers used 0.55
	//  96 clients: 12418 ops/s,  7.731 ms; workers used 1.00
	// 288 clients: 12434 ops/s, 23.162 ms; workers used 1.00
}

func ExampleNewMMm() {
	q, err := queueing.NewMMm(11_210, 92.5625, 128) // the 2018 report, table 5: 144 clients, 2 x 64 workers
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("rho %.3f, queueing %.3f, response %.2f ms\n", q.Rho, q.C, 1000*q.MeanResponse())
	// Output: rho 0.946, queueing 0.428, response 11.47 ms
}
