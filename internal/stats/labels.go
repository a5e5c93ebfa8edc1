package stats

import "mcmw/internal/protocol"

// Class is a group of similar commands that share a response time histogram.
type Class uint8

// The classes.
const (
	ClassGet        Class = iota // a retrieval of one key
	ClassMultiGet                // a retrieval of several keys
	ClassSet                     // set, add, replace, append, prepend, cas
	ClassDelete                  // delete
	ClassArithmetic              // incr, decr
	ClassTouch                   // touch
	ClassOther                   // everything else
	NumClasses
)

var classNames = [NumClasses]string{"get", "multi_get", "set", "delete", "arithmetic", "touch", "other"}

// String returns the class's metric label value.
func (c Class) String() string { return classNames[c] }

// ClassOf returns the class of a request with the given command and number of keys.
func ClassOf(c protocol.Command, keys int) Class {
	switch {
	case c.IsRetrieval() && keys > 1:
		return ClassMultiGet
	case c.IsRetrieval():
		return ClassGet
	case c.IsStorage():
		return ClassSet
	case c == protocol.Delete:
		return ClassDelete
	case c == protocol.Incr || c == protocol.Decr:
		return ClassArithmetic
	case c == protocol.Touch:
		return ClassTouch
	default:
		return ClassOther
	}
}

// CanEnd reports whether a request with command c can have result r. Possible combinations are exported from the start,
// at 0.
func CanEnd(c protocol.Command, r Result) bool {
	switch r {
	case ResultOK:
		return c != protocol.Invalid
	case ResultMiss:
		return c.IsRetrieval() || c == protocol.Meta
	case ResultHot:
		return c == protocol.Get || c == protocol.Gets
	case ResultPartial:
		return c.IsRetrieval()
	case ResultNotStored:
		return c.IsKeyed() && !c.IsRetrieval() || c == protocol.Meta
	default:
		return c != protocol.Quit
	}
}

// Reason is the reason for which a request to a server or a connection to it failed. The list is closed.
type Reason uint8

// The reasons of server errors.
const (
	ReasonConnect  Reason = iota // the connection could not be made: refused, unreachable, name not resolved
	ReasonTimeout                // no reply within the time allowed
	ReasonReset                  // the server closed or reset the connection
	ReasonProtocol               // the protocol does not allow this reply to the request
	ReasonReply                  // the server itself answered SERVER_ERROR
	ReasonDown                   // the server is known to be down; no attempt was made
	ReasonOther                  // any other failure of reading or writing
	NumReasons
)

var reasonNames = [NumReasons]string{"connect", "timeout", "reset", "protocol", "reply", "down", "other"}

// String returns the reason's metric label value.
func (r Reason) String() string { return reasonNames[r] }

// CloseReason is the reason for which a client's connection ended. The list is closed.
type CloseReason uint8

// The reasons of closed connections.
const (
	CloseClient CloseReason = iota // the client closed it
	CloseQuit                      // the client sent quit
	// the client sent something after which the streams cannot be kept in sync, or exceeded a limit
	CloseProtocol
	CloseError     // reading or writing failed
	CloseShutdown  // the middleware is stopping
	CloseRefused   // the maximum number of connections was reached
	CloseIdle      // no request arrived for longer than allowed
	CloseSlow      // the client was too slow to read its replies, or to send a request
	CloseHandshake // the TLS handshake did not succeed in time
	CloseMemory    // there was no memory for its large request
	CloseAge       // the connection reached its maximum age
	NumCloseReasons
)

var closeNames = [NumCloseReasons]string{
	"client", "quit", "protocol", "error", "shutdown", "refused", "idle", "slow",
	"handshake", "memory", "age",
}

// String returns the reason's metric label value.
func (r CloseReason) String() string { return closeNames[r] }
