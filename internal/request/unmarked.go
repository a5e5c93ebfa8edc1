package request

import (
	"context"
	"slices"
)

// Unmarked are servers that missed a settled write, which is answered once that is known: to the next start of the middleware, or to all
// middlewares in front of them.
type Unmarked struct {
	Servers []Missed
	Until   int64 // how long it waits, ns as stats.Now
}

// Waits reports whether that is not known yet of one of them.
func (u *Unmarked) Waits() bool {
	return u != nil && slices.ContainsFunc(u.Servers, func(m Missed) bool { return m.Server.Unmarked() })
}

// Missed is a server that missed a write.
type Missed struct {
	Server Marker
	// Withhold: the write must not be answered with success before that is known. Refusal is the answer in its place; "": none.
	Withhold bool
	Refusal  string
}

// Marker is what tells others that a server missed writes; package backend has it.
type Marker interface {
	// Unmarked reports whether that is not known yet.
	Unmarked() bool
	// AwaitMarked waits until it is known, or cannot be, and reports which.
	AwaitMarked(ctx context.Context) bool
	// Withheld counts writes that were answered with an error because it was not known.
	Withheld(writes int)
}
