package queueing

import "fmt"

// The operational laws hold for every system that can be observed, whatever its distributions: Jain, chapter 33;
// P. J. Denning and J. P. Buzen, "The operational analysis of queueing network models", ACM Computing Surveys 10 (1978).
// Each divides by an observed length of time or count, which the caller knows to be above 0.

// Throughput is completions per unit of time: X = C/T.
func Throughput(completions, length float64) float64 { return completions / length }

// Utilization is the share of time a station was busy: U = B/T.
func Utilization(busy, length float64) float64 { return busy / length }

// ServiceTime is the mean time a station was busy per completion: S = B/C.
func ServiceTime(busy, completions float64) float64 { return busy / completions }

// Demand is the service that a pass through the system needs of a station: D = V S.
func Demand(visits, service float64) float64 { return visits * service }

// ForcedFlow is the throughput of a station by that of the system: Xi = Vi X.
func ForcedFlow(visits, throughput float64) float64 { return visits * throughput }

// UtilizationLaw is the utilization by throughput and demand of the system's passes: U = X D.
func UtilizationLaw(throughput, demand float64) float64 { return throughput * demand }

// Little is the mean number in a system by its throughput and response time: N = X R.
func Little(throughput, response float64) float64 { return throughput * response }

// InteractiveResponse is the response time by the interactive response time law: R = N/X - Z.
func InteractiveResponse(customers, throughput, think float64) float64 {
	return customers/throughput - think
}

// InteractiveThroughput is the throughput by the interactive response time law: X = N/(R+Z).
func InteractiveThroughput(customers, response, think float64) float64 {
	return customers / (response + think)
}

// InteractiveCheck compares a measured response time with the interactive response time law.
type InteractiveCheck struct {
	Response   float64 // by the law from the measured throughput
	Throughput float64 // by the law from the measured response time
	Error      float64 // measured less Response
	Relative   float64 // Error as a share of what was measured
}

// CheckInteractive compares what was measured of a closed system: customers, throughput, think time and response time.
func CheckInteractive(customers, throughput, think, response float64) (InteractiveCheck, error) {
	for _, v := range []struct {
		name  string
		value float64
	}{{"the number of customers", customers}, {"the throughput", throughput}, {"the response time", response}} {
		if err := positive("interactive law: "+v.name, v.value); err != nil {
			return InteractiveCheck{}, err
		}
	}
	if err := notNegative("interactive law: the think time", think); err != nil {
		return InteractiveCheck{}, err
	}
	law := InteractiveResponse(customers, throughput, think)
	if law < 0 {
		return InteractiveCheck{}, fmt.Errorf("interactive law: %v customers with a throughput of %v cannot think for %v: expected at most %v",
			customers, throughput, think, customers/throughput)
	}
	return InteractiveCheck{
		Response: law, Throughput: InteractiveThroughput(customers, response, think),
		Error: response - law, Relative: (response - law) / response,
	}, nil
}
