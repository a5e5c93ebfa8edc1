package queueing

// The operational laws hold for every system that can be observed, whatever its distributions: Jain, chapter 33;
// P. J. Denning and J. P. Buzen, "The operational analysis of queueing network models", ACM Computing Surveys 10 (1978).

// Demand is the service that a pass through the system needs of a station: D = V S.
func Demand(visits, service float64) float64 { return visits * service }

// ForcedFlow is the throughput of a station by that of the system: Xi = Vi X.
func ForcedFlow(visits, throughput float64) float64 { return visits * throughput }

// UtilizationLaw is the utilization by throughput and demand of the system's passes: U = X D.
func UtilizationLaw(throughput, demand float64) float64 { return throughput * demand }
