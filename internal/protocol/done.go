package protocol

// Unclear reports whether the reply to the write r does not show its full effect: the item may be stale, or a client
// may have to renew it.
func (r *Request) Unclear() bool {
	return r.Command == Meta && (r.Has(Marks) || r.HasFlag('x') || r.Fetches() && r.Has(Depends))
}

// Done returns the command that repeats, on another server, what the write r has done where it succeeded. Conditions of
// r are dropped, and its reply is never left out. plain: the resulting item does not depend on the one before.
func (r *Request) Done() (op Op, plain bool) {
	if r.Answer != "" {
		return r.Deletion(), true
	}
	op = r.Op
	switch r.Command {
	case Add, Replace, Cas:
		op.Command, plain = Set, true
	case Set, Delete:
		plain = true
	case Meta:
		op.Drop("qCEkO")
		if r.Verb == 's' && !r.Has(Builds) {
			op.Drop("M")
		}
		plain = !r.Has(Builds) && !r.Fetches() && !r.Unclear()
	}
	return op, plain
}
