package stats

// Agreement counts what the checks of replicas did, where several middlewares write the same servers.
type Agreement struct {
	Checks        uint64 // writes behind which the replicas were compared to the end
	Disagreements uint64 // of them those behind which replicas differed, seen twice
	Cuts          uint64 // copies that were deleted for that
}

func (a *Agreement) plus(b Agreement) {
	a.Checks += b.Checks
	a.Disagreements += b.Disagreements
	a.Cuts += b.Cuts
}

func (a *Agreement) minus(b Agreement) {
	a.Checks -= b.Checks
	a.Disagreements -= b.Disagreements
	a.Cuts -= b.Cuts
}
