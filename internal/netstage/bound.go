package netstage

import (
	"bytes"

	"mcmw/internal/protocol"
	"mcmw/internal/stats"
)

// textForeign is the reply to a request that a bound user may not make.
const textForeign = "CLIENT_ERROR this user may use only keys that begin with its prefixes\r\n"

// mayAsk reports whether c's user, who is bound to prefixes, may make the request r: it names only keys with these
// prefixes, or it needs neither a key nor what belongs to all users of the servers.
func (c *conn) mayAsk(r *protocol.Request) bool {
	switch {
	case r.NumKeys > 1:
		for key := range bytes.SplitSeq(r.Keys, []byte(" ")) {
			if !c.user.May(key) {
				return false
			}
		}
		return true
	case r.NumKeys == 1:
		var room [protocol.DefaultMaxKey]byte
		return c.user.May(r.Key(room[:0]))
	}
	return !r.Has(protocol.Everywhere) && !r.Has(protocol.Fenced)
}

// refuseForeign makes r a request that is answered with an error and has no effect.
func (c *conn) refuseForeign(r *protocol.Request) {
	r.Refuse(textForeign)
	c.stage.options.Net.Change(func(n *stats.NetRecord) { n.ForeignKeys++ })
	c.stage.warn(c, &c.stage.foreign, "a request was refused: its user is bound to other prefixes", "user", c.user.Name)
}
