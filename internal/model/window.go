package model

// Window has the measurements between two points in time. Times are sums over the answered requests, in seconds.
type Window struct {
	Seconds  float64 // T
	Answered float64 // requests
	Arrived  float64 // requests enqueued
	Hot      float64 // requests answered from memory, which no other field counts

	QueueTime  float64
	WorkerTime float64
	ServerTime float64
	ReplyTime  float64

	// Samples is the number of samples. SampledQueue is the sum of the sampled numbers of requests in the queue,
	// SampledService of those in service.
	Samples, SampledQueue, SampledService float64

	Workers    int
	Depth      int     // the maximum number of requests that a worker serves at a time
	Processors int     // processors that mcmw may use
	Processor  float64 // processor time used, s

	Servers []Server
}

// Server is a server's share of a Window.
type Server struct {
	Name  string
	Calls float64
	// TypicalTime is the first quartile of the calls' times, times their number, s. When a request calls several
	// servers, only the call whose reply is read first shows its own time; the others show more.
	TypicalTime float64
	// Fastest is the time of the fastest calls, s, which did not queue.
	Fastest float64
	// Waited is the time that workers were blocked waiting for the server's replies, summed over the workers, s.
	Waited float64
}
