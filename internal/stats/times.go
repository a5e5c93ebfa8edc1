package stats

import "time"

// Stage is a part of a request's response time. The five stages of one request add up to its response time.
type Stage uint8

// The stages, in the order in which a request passes them.
const (
	StageNet    Stage = iota // created..enqueued: the read that completed the request until it was put on the queue
	StageQueue               // enqueued..dequeued: waiting in the queue
	StageWorker              // dequeued..sent: routing, and writing to the servers
	StageServer              // sent..received: until the last server's reply was read
	StageReply               // received..replied: assembling the reply and writing it to the client
	NumStages
)

var stageNames = [NumStages]string{"net", "queue", "worker", "server", "reply"}

// String returns the stage's name, which is the same in code, metrics, dashboards, logs and models.
func (s Stage) String() string { return stageNames[s] }

// Result is the result of a request. The list is closed.
type Result uint8

// The results.
const (
	ResultOK          Result = iota // success: STORED, DELETED, OK, a number, a hit for every key
	ResultMiss                      // a retrieval that found none of its keys
	ResultPartial                   // a retrieval that found some of its keys
	ResultNotStored                 // NOT_STORED, EXISTS, NOT_FOUND: the command's condition did not hold
	ResultClientError               // ERROR or CLIENT_ERROR
	ResultServerError               // SERVER_ERROR
	ResultShed                      // the queue was full: the request got an error and had no effect
	ResultHot                       // answered by the reader with the value of a hot key
	NumResults
)

var resultNames = [NumResults]string{
	"ok", "miss", "partial", "not_stored", "client_error", "server_error",
	"shed", "hot",
}

// String returns the result's metric label value.
func (r Result) String() string { return resultNames[r] }

// Times are the times at which one request passed the stages, in monotonic nanoseconds as returned by Now.
type Times struct {
	Created  int64 // the read that completed the request returned
	Enqueued int64 // put on the queue
	Dequeued int64 // taken by a worker
	Sent     int64 // the last write to a server returned; Dequeued for a request that needs no server
	Received int64 // the last server's reply was read; Sent for a request that needs no server
	Replied  int64 // the reply was handed to the client's socket
}

// Of returns the time spent in stage s in ns.
func (t *Times) Of(s Stage) int64 {
	switch s {
	case StageNet:
		return t.Enqueued - t.Created
	case StageQueue:
		return t.Dequeued - t.Enqueued
	case StageWorker:
		return t.Sent - t.Dequeued
	case StageServer:
		return t.Received - t.Sent
	default:
		return t.Replied - t.Received
	}
}

// Response returns the response time in ns: the sum of all stages.
func (t *Times) Response() int64 { return t.Replied - t.Created }

var epoch = time.Now()

// Now returns the monotonic clock in nanoseconds since the start of the process.
func Now() int64 { return int64(time.Since(epoch)) }

// Wall returns the wall-clock time for a time that Now returned.
func Wall(ns int64) time.Time { return epoch.Add(time.Duration(ns)) }
