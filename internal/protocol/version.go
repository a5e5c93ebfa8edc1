package protocol

// With several writers, versions show whether replicas are equal: every stored item gets a unique cas (the flag E of
// memcached 1.6.27 and later). The functions of this file encode the commands for that, and decode their replies.

// FirstVersion is the lowest version. A cas that a server assigns itself counts its stored items, and stays far below.
const FirstVersion = 1 << 62

// FirstProvisional is the lowest version of a provisional copy, which must not be read yet. Lower versions belong to
// items.
const FirstProvisional = 1 << 63

// IsProvisional reports whether an item with this cas is a provisional copy.
func IsProvisional(cas uint64) bool { return cas >= FirstProvisional }

// ShowsToken reports whether r is a read whose reply shows a cas, which a later write can name: a gets, or an mg with
// the flag c. An me is none: most of what it shows is its server's own.
func (r *Request) ShowsToken() bool {
	return r.Has(Reads|First) && !r.Has(Writes) && (r.Command == Gets || r.Fetches())
}

// FirstOfGutter is the lowest token of an item in a gutter without versions: it is added to the server's own cas, so
// that it is no token elsewhere. NoToken is the token of no item.
const (
	FirstOfGutter = 1 << 61
	NoToken       = FirstVersion - 1
)

// InGutter makes op, a conditional write that is sent to a gutter's server, name the cas that this server knows in
// place of op's token. A token from elsewhere becomes NoToken.
func (op *Op) InGutter() {
	if op.CAS < FirstOfGutter || op.CAS >= NoToken {
		op.CAS = NoToken
	} else {
		op.CAS -= FirstOfGutter
	}
}

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
