package plan

import (
	"testing"

	"mcmw/internal/protocol"
	"mcmw/internal/request"
	"mcmw/internal/wire"
)

// BenchmarkARoundOfGets measures planning, matching and answering without sockets: a round of 64 gets from one server.
func BenchmarkARoundOfGets(b *testing.B) {
	x := plan(&testing.T{}, setup{servers: 1})
	line, reply := []byte("get memtier-1234567\r\n"),
		[]byte("VALUE memtier-1234567 0 64\r\n"+string(make([]byte, 64))+"\r\nEND\r\n")
	var g wire.Gather
	requests := make([]request.Request, 64)
	for b.Loop() {
		for i := range requests {
			_, _, _ = x.limits.Decode(line, &requests[i].Request)
			x.Part()
			n := x.Add(&requests[i])
			_, _ = x.Locks(n, false)
			x.Plan(n)
		}
		for n := range int32(len(x.Calls)) {
			for at := 0; at < len(reply); {
				var rep protocol.Reply
				size, _, _ := protocol.DecodeReply(reply[at:], &rep)
				last, _, _ := x.Element(n, &rep, reply[at:at+size], at, at+size)
				if at += size; last && x.Done(n, rep.Kind, reply) {
					x.End(n, true)
				}
			}
		}
		for i := range int32(len(x.Requests)) {
			_ = x.Answer(i, &g, nil)
			_, _ = x.Result(i)
		}
		g.Reset()
		x.Reset()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/64, "ns/request")
}
