package protocol

// A value that is too large for one item of a server is stored in chunks; see package large. The functions of this file
// replace the value in a client's request, or in a server's reply, by another one.

// BringsValue reports whether r carries a value to be stored: it is a classic storage command or an ms.
func (r *Request) BringsValue() bool {
	return r.Command.IsStorage() || r.Command == Meta && r.Verb == 's'
}

// Joins reports whether r, which carries a value, appends or prepends it to the existing one.
func (r *Request) Joins() bool {
	return r.Command == Append || r.Command == Prepend || r.Command == Meta && r.Has(Builds)
}

// Value returns the value in element, a complete VALUE or VA whose value has size bytes.
func Value(element []byte, size int) []byte {
	end := len(element) - len(CRLF)
	return element[end-size : end]
}
