package protocol

// This file says what a command does, beyond its traits.

// ShowsToken reports whether r is a read whose reply shows a cas, which a later write can name: a gets, or an mg with
// the flag c. An me is none: most of what it shows is its server's own.
func (r *Request) ShowsToken() bool {
	return r.Has(Reads|First) && !r.Has(Writes) && (r.Command == Gets || r.Fetches())
}

// Expires reports whether r is a gat that may end the life of its items at once. Whoever asks for them again misses
// them.
func (r *Request) Expires() bool { return r.Has(Reads|Writes) && LifeStored(r.Expiry) == 0 }

// IsSet reports whether r is a classic command that stores its data unconditionally.
func (r *Request) IsSet() bool { return r.Command == Set }

// Decrements reports whether r, an ma, subtracts.
func (r *Request) Decrements() bool { return r.Mode == 'D' || r.Mode == '-' }

// Adds reports whether r stores its item only if there is none.
func (r *Request) Adds() bool {
	if r.Command == Meta {
		return r.Verb == 's' && r.Mode == 'E'
	}
	return r.Command == Add
}

// Fetches reports whether r is an mg.
func (r *Request) Fetches() bool { return r.Command == Meta && r.Verb == 'g' }

// BringsValue reports whether r carries a value to be stored: it is a classic storage command or an ms.
func (r *Request) BringsValue() bool {
	return r.Command.IsStorage() || r.Command == Meta && r.Verb == 's'
}

// StoresIf reports whether r stores the item that it brings on a condition.
func (r *Request) StoresIf() bool { return r.BringsValue() && r.Has(Depends) && !r.Has(Builds) }

// Joins reports whether r, which carries a value, appends or prepends it to the existing one.
func (r *Request) Joins() bool {
	return r.Command == Append || r.Command == Prepend || r.Command == Meta && r.Has(Builds)
}

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
