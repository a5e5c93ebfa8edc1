package stats

// Agreement counts the results of checks, which compare the replicas after a write if several middlewares write the
// same servers.
type Agreement struct {
	Checks        uint64 // writes after which the replicas were compared to the end
	Disagreements uint64 // of these, writes after which replicas differed in two comparisons in a row
	Cuts          uint64 // copies that were deleted because of that
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
