package model

// Window is what was measured between two moments. Times are sums over the requests that were answered, in seconds.
type Window struct {
	Seconds  float64 // T
	Answered float64 // requests
	Arrived  float64 // requests put on the queue
	Hot      float64 // requests answered from memory, which are in no other number

	QueueTime  float64
	WorkerTime float64
	ServerTime float64
	ReplyTime  float64

	// Sums of Samples samples of how many requests wait in the queue, and how many are in service.
	Samples, SampledQueue, SampledService float64

	Workers    int
	Depth      int     // requests a worker serves at a time
	Processors int     // that may be used
	Processor  float64 // processor time used, s

	Servers []Server
}

// Server is a server's share of a Window.
type Server struct {
	Name  string
	Calls float64
	// TypicalTime is, summed over the calls, the time that three quarters of them exceed, s. Of the calls of a request to several
	// servers only the one that is read first shows its time; those behind it show more.
	TypicalTime float64
	// Fastest is the time of the fastest calls, s: those without queueing.
	Fastest float64
	// Waited is the time that workers were blocked waiting for its replies, sum over the workers, s.
	Waited float64
}

// Add adds a later window of the same servers. Fields that are not sums are taken from the later one.
func (w *Window) Add(later *Window) {
	w.Seconds += later.Seconds
	w.Answered += later.Answered
	w.Arrived += later.Arrived
	w.Hot += later.Hot
	w.QueueTime += later.QueueTime
	w.WorkerTime += later.WorkerTime
	w.ServerTime += later.ServerTime
	w.ReplyTime += later.ReplyTime
	w.Samples += later.Samples
	w.SampledQueue += later.SampledQueue
	w.SampledService += later.SampledService
	w.Processor += later.Processor
	w.Workers, w.Depth, w.Processors = later.Workers, later.Depth, later.Processors
	before := w.Servers
	w.Servers = append([]Server(nil), later.Servers...)
	for i := range w.Servers {
		s := &w.Servers[i]
		for _, b := range before {
			if b.Name == s.Name {
				s.Calls += b.Calls
				s.TypicalTime += b.TypicalTime
				s.Waited += b.Waited
			}
		}
	}
}
