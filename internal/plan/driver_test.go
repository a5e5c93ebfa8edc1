package plan_test

import (
	"fmt"
	"hash/crc32"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"mcmw/internal/plan"
	"mcmw/internal/protocol"
	"mcmw/internal/replica"
	"mcmw/internal/request"
	"mcmw/internal/route"
)

// driver runs a planner, one request a round, as a worker does, but is told what servers answer. It is a explore.Driver.
type driver struct {
	t       testing.TB
	router  *route.Router
	planner *plan.Planner
	limits  protocol.Limits

	request request.Request
	sent    int       // Calls[:sent] are in out
	waiting [][]int32 // by server: calls in the order sent
	unread  []string  // by server: what came of the first of them, without what was parsed
	reply   []string  // by server: what was parsed of it
	out     []string
	told    []string // everything, in order
	answer  text
	done    bool
	// missed are the servers of which a call that writes got no reply.
	missed map[int]bool
	lies   bool // servers may answer what does not fit
}

// text is an Output.
type text struct{ strings.Builder }

func (o *text) Add(piece []byte)       { o.Write(piece) }
func (o *text) AddString(piece string) { o.WriteString(piece) }

// newDriver returns one for so many servers, each of which holds every key.
func newDriver(t testing.TB, servers int, ack replica.Ack, read route.ReadPolicy) *driver {
	t.Helper()
	var list []route.Server
	var names []string
	for s := range servers {
		names = append(names, fmt.Sprintf("server-%d", s+1))
		list = append(list, route.Server{Name: names[s], Weight: 1})
	}
	router, err := route.New(list, route.Options{Read: read})
	require.NoError(t, err)
	d := &driver{t: t, router: router, limits: protocol.Limits{}.WithDefaults(), missed: map[int]bool{}}
	d.planner = plan.New(plan.Options{
		Router: router, Names: names, Home: -1, Ack: ack, MaxValue: 1 << 20, Stripe: func(key []byte) uint32 { return crc32.ChecksumIEEE(key) },
	}, 0)
	for s := range d.planner.Servers {
		d.planner.Servers[s].Readable = true
	}
	d.waiting, d.unread, d.reply, d.out = make([][]int32, servers), make([]string, servers), make([]string, servers), make([]string, servers)
	return d
}

// decode reads one request.
func (d *driver) decode(command string) (r request.Request) {
	n, _, err := d.limits.Decode([]byte(command), &r.Request)
	require.NoError(d.t, err, "%q", command)
	require.Equal(d.t, len(command), n, "%q", command)
	return r
}

func (d *driver) Locks(command string) (keys []string, holds bool) {
	r := d.decode(command)
	return strings.Fields(string(r.Keys)), r.Has(protocol.Writes)
}

func (d *driver) Start(command string) {
	d.request = d.decode(command)
	d.done, d.answer, d.told = false, text{}, []string{command}
	d.planner.Reset()
	d.planner.Part()
	d.sent = 0
	i := d.planner.Add(&d.request)
	d.planner.Plan(i)
	d.send()
}

// send takes the calls that were planned, and what follows while nothing is waited for.
func (d *driver) send() {
	for {
		for ; d.sent < len(d.planner.Calls); d.sent++ {
			c := &d.planner.Calls[d.sent]
			for _, piece := range c.Bytes {
				d.out[c.Server] += string(piece)
			}
			if c.Fence {
				d.out[c.Server] += "mn\r\n"
			}
			d.waiting[c.Server] = append(d.waiting[c.Server], int32(d.sent))
		}
		for _, calls := range d.waiting {
			if len(calls) > 0 {
				return
			}
		}
		if !d.planner.Settle(0, true) {
			d.planner.Answer(0, &d.answer, func(dst []byte) []byte { return dst })
			d.done = true
			return
		}
		d.planner.Next(0)
	}
}

func (d *driver) Reply(server int, reply string) {
	d.told = append(d.told, fmt.Sprint(server, reply))
	d.unread[server] += reply
	for len(d.waiting[server]) > 0 && d.unread[server] != "" {
		n := d.waiting[server][0]
		var r protocol.Reply
		size, _, err := protocol.DecodeReply([]byte(d.unread[server]), &r)
		if err != nil {
			d.misfits(server)
			return
		}
		if size == 0 {
			return
		}
		element := d.unread[server][:size]
		start := len(d.reply[server])
		d.reply[server] += element
		d.unread[server] = d.unread[server][size:]
		last, _, ok := d.planner.Element(n, &r, []byte(element), start, start+size)
		if !ok {
			d.misfits(server)
			return
		}
		if !last {
			continue
		}
		ended := d.planner.Done(n, r.Kind, []byte(d.reply[server]))
		d.reply[server] = ""
		d.waiting[server] = d.waiting[server][1:]
		if ended {
			d.send()
		}
	}
}

// misfits closes the connection to a server that answered something else.
func (d *driver) misfits(server int) {
	require.True(d.t, d.lies, "%q was answered with %q", d.request.Raw, d.reply[server]+d.unread[server])
	d.Lost(server)
}

func (d *driver) Lost(server int) {
	d.told = append(d.told, fmt.Sprint(server, "lost"))
	d.out[server] = ""
	calls := d.waiting[server]
	d.waiting[server], d.reply[server], d.unread[server] = nil, "", ""
	ended := false
	for _, n := range calls {
		all := d.planner.Missed(n, func([]byte) { d.missed[server] = true })
		d.missed[server] = d.missed[server] || all
		ended = d.planner.NoAnswer(n, fmt.Appendf(nil, "SERVER_ERROR server-%d: lost\r\n", server+1), true) || ended
	}
	d.planner.Servers[server].Readable = d.planner.Servers[server].Readable && !d.missed[server]
	if ended {
		d.send()
	}
}

func (d *driver) Out(server int) string {
	out := d.out[server]
	d.out[server] = ""
	return out
}

func (d *driver) Answer() (string, bool) { return d.answer.String(), d.done }

func (d *driver) Busy() bool { return !d.done }

func (d *driver) AppendState(dst []byte) []byte { return fmt.Appendf(dst, "%q %v", d.told, d.missed) }
