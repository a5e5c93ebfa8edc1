package queueing

import "testing"

// twoMiddlewares is the network of the 2018 report, figure 29, write-only, in milliseconds.
func twoMiddlewares() Network {
	n := Network{Stations: []Station{{Name: "client", Kind: Delay, Visits: 1}}}
	for _, mw := range []string{"1", "2"} {
		n.Stations = append(
			n.Stations,
			Station{Name: "net to mw" + mw, Kind: Delay, Visits: 0.5, Service: 0.635},
			Station{Name: "net thread mw" + mw, Kind: Queue, Visits: 0.5, Service: 0.026},
			Station{Name: "workers mw" + mw, Kind: Multi, Visits: 0.5, Service: 8.941, Servers: 64},
			Station{Name: "net from mw" + mw, Kind: Delay, Visits: 0.5, Service: 0.635},
		)
	}
	return n
}

func BenchmarkTwoMiddlewaresWithAThousandCustomers(b *testing.B) {
	n := twoMiddlewares()
	for b.Loop() {
		if _, err := n.Solve(1000); err != nil {
			b.Fatal(err)
		}
	}
}
