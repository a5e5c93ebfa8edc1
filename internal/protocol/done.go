package protocol

import "bytes"

// Unclear reports whether the reply to the write r does not show its full effect: the item may be stale, or a client may have to renew it.
func (r *Request) Unclear() bool {
	return r.Command == Meta && (r.Has(Marks) || HasFlag(r.Head, 'x') || r.Fetches() && r.Has(Depends))
}

// AppendDone appends a request that repeats, on another server, what the write r has done where it succeeded. Conditions of r are dropped, and its
// reply is never left out. plain: the resulting item does not depend on the one before.
func (r *Request) AppendDone(dst []byte) (text []byte, plain bool) {
	if r.Answer != "" {
		dst, _ = r.AppendDeletion(dst)
		return dst, true
	}
	switch r.Command {
	case Add, Replace:
		dst, plain = append(append(dst, "set"...), r.Head[bytes.IndexByte(r.Head, ' '):]...), true
	case Cas:
		dst, _ = r.AppendUnconditional(dst)
		return append(dst, r.Data...), true
	case Set, Delete:
		dst, plain = append(dst, r.Head...), true
	case Meta:
		drop := "qCEkO"
		if r.Arg[1] == 's' && !r.Has(Builds) {
			drop += "M"
		}
		plain = !r.Has(Builds) && !r.Fetches() && !r.Unclear()
		return append(AppendMeta(dst, r.Head, drop), r.Data...), plain
	default: // append, prepend, incr, decr, touch, flush_all
		dst = append(dst, r.Head...)
	}
	return append(append(dst, CRLF...), r.Data...), plain
}
