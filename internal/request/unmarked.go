package request

import (
	"context"
	"slices"
)

// Unmarked are the servers that missed a settled write. The write is answered once they are marked, so that the next
// start of the middleware knows it, or all middlewares in front of the servers do.
type Unmarked struct {
	Servers []Missed
	Until   int64 // the time until which the write waits, ns as stats.Now
	// Deposed reports whether Decider, the server that has decided the write, ceased to decide meanwhile, so that a
	// success must not be reported; nil: no server has.
	Deposed func() bool
	Decider int
}

// Waits reports whether one of the servers is not marked yet. A nil u waits for nothing.
func (u *Unmarked) Waits() bool {
	return u != nil && slices.ContainsFunc(u.Servers, func(m Missed) bool { return m.Server.Unmarked() })
}

// Missed is a server that missed a write.
type Missed struct {
	Server Marker
	// Withhold: the write must not be answered with success before the server is marked. Refusal is the reply in place
	// of success; "": there is none.
	Withhold bool
	Refusal  string
}

// Marker is a server that missed writes, and its mark, which tells others so. backend.Server implements it.
type Marker interface {
	// Unmarked reports whether the mark is not in force yet.
	Unmarked() bool
	// AwaitMarked waits until the mark is in force. It returns false if that does not happen in time.
	AwaitMarked(ctx context.Context) bool
	// Withheld counts writes that were answered with an error because the mark was not in force.
	Withheld(writes int)
}
