package plan_test

import (
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"mcmw/internal/large"
	"mcmw/internal/plan"
	"mcmw/internal/protocol"
	"mcmw/internal/replica"
	"mcmw/internal/request"
	"mcmw/internal/route"
)

// driver runs a planner with one request per round, as a worker does, and is told what servers answer. It is an
// explore.Driver.
type driver struct {
	t       testing.TB
	router  *route.Router
	planner *plan.Planner
	limits  protocol.Limits

	request request.Request
	sent    int       // Calls[:sent] are in out
	waiting [][]int32 // by server: calls in the order sent
	unread  []string  // by server: the part of its reply to the first of them that is not parsed yet
	reply   []string  // by server: the part that is parsed
	out     []string
	told    []string // all commands and replies, in order
	answer  text
	done    bool
	whole   bool   // the command is a set that all servers have stored
	tells   bool   // the command is a get, and the server is also asked how long the item lives
	fetched string // the answer to a get
	lives   bool   // it is known how long the item lives
	idle    bool   // no check is left, or those that are left wait for another command
	// waits is the number of commands that must begin before a round has only checks. rides: the rounds of those
	// commands have the checks that are left, too.
	waits  int
	rides  bool
	token  string // the cas that a gets has shown last
	mutant mutant
	shows  int      // the server that answers reads, if the planner has it as its home
	early  []string // by server: what a check that is too early saw
	stored string   // the line and the value that were stored last
	// missed are the servers that did not reply to a call that writes. Workers of one middleware may share it, as they
	// share their knowledge about servers.
	missed map[int]bool
	lies   bool        // servers may reply something that does not fit
	drops  bool        // values that need not be kept are not kept
	locked func() bool // another worker of the middleware writes the key
	// unreached reports whether calls to the server fail; nil: none does.
	unreached func(server int) bool
}

// text is an Output.
type text struct{ strings.Builder }

func (o *text) Add(piece []byte)       { o.Write(piece) }
func (o *text) AddString(piece string) { o.WriteString(piece) }

// newDriver returns a driver for that many servers, each of which holds every key.
func newDriver(t testing.TB, servers int, ack replica.Ack, read route.ReadPolicy) *driver {
	t.Helper()
	return drive(t, newRouter(t, servers, read), ack, nil)
}

// newRouter returns a router that places every key on all of that many servers.
func newRouter(t testing.TB, servers int, read route.ReadPolicy) *route.Router {
	t.Helper()
	var list []route.Server
	for s := range servers {
		list = append(list, route.Server{Name: fmt.Sprintf("server-%d", s+1), Weight: 1})
	}
	router, err := route.New(list, route.Options{Read: read})
	require.NoError(t, err)
	return router
}

// drive returns a driver of a planner with that router. With versions it is one of several writers.
func drive(t testing.TB, router *route.Router, ack replica.Ack, versions *plan.Versions) *driver {
	t.Helper()
	return driveWith(t, router, ack, versions, func(*plan.Options) {})
}

// driveLarge is drive with large values, whose versions the function version returns.
func driveLarge(t testing.TB, router *route.Router, ack replica.Ack, versions *plan.Versions, limits plan.Large,
	version func() large.Version,
) *driver {
	t.Helper()
	return driveWith(t, router, ack, versions, func(o *plan.Options) {
		o.LargeVersion = version
		for i := range o.Pools {
			o.Pools[i].Large = limits
		}
	})
}

// driveWith is drive with other options, which the function changes.
func driveWith(t testing.TB, router *route.Router, ack replica.Ack, versions *plan.Versions,
	change func(*plan.Options),
) *driver {
	t.Helper()
	servers := len(router.Servers())
	var names []string
	for _, s := range router.Servers() {
		names = append(names, s.Name)
	}
	d := &driver{
		t: t, router: router, limits: protocol.Limits{}.WithDefaults(), missed: map[int]bool{},
		locked: func() bool { return false },
	}
	pools := slices.Repeat([]plan.Pool{{Ack: ack, Versions: versions != nil, Several: versions != nil}},
		len(router.Pools()))
	o := plan.Options{
		Router: router, Names: names, Home: -1, Pools: pools, MaxValue: 1 << 20, Versions: versions,
		Stripe: func(key []byte) uint32 { return crc32.ChecksumIEEE(key) },
		Locked: func(uint32) bool { return d.locked() },
		Today:  func() int64 { return 1_800_000_000 },
	}
	change(&o)
	d.planner = plan.New(o, 0)
	for s := range d.planner.Servers {
		d.planner.Servers[s].Readable = true
	}
	d.early = make([]string, servers)
	d.waiting, d.unread, d.reply, d.out = make([][]int32, servers), make([]string, servers), make([]string, servers),
		make([]string, servers)
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
	r := d.decode(d.named(command))
	// a check holds no lock
	return strings.Fields(string(r.Keys)), r.Has(protocol.Writes) &&
		!(d.done && d.named(command) == string(d.request.Raw))
}

func (d *driver) Start(command string) {
	d.request = d.decode(d.named(command))
	d.done, d.whole, d.idle, d.answer, d.told = false, false, false, text{}, []string{command}
	d.planner.Reset()
	d.planner.Part()
	for s := range d.planner.Servers {
		d.planner.Servers[s].Readable = d.planner.Servers[s].Readable && !d.missed[s]
	}
	d.sent = 0
	i := d.planner.Add(&d.request)
	d.planner.Plan(i)
	if d.tells {
		d.planner.AskLife(i)
	}
	d.waits--
	if d.rides {
		d.planner.PlanChecks()
	}
	d.send()
	d.loseUnreached()
}

// loseUnreached lets calls fail to servers that are not reached.
func (d *driver) loseUnreached() {
	for s := range d.waiting {
		for d.unreached != nil && d.unreached(s) && len(d.waiting[s]) > 0 {
			d.Lost(s)
		}
	}
}

// send takes the calls that were planned, and the steps that follow as long as no reply is missing.
func (d *driver) send() {
	for {
		for ; d.sent < len(d.planner.Calls); d.sent++ {
			c := &d.planner.Calls[d.sent]
			if !d.mutate(c) {
				continue
			}
			for _, piece := range c.Bytes {
				d.out[c.Server] += string(piece)
			}
			if c.Fence() {
				d.out[c.Server] += "mn\r\n"
			}
			d.waiting[c.Server] = append(d.waiting[c.Server], int32(d.sent))
		}
		for _, calls := range d.waiting {
			if len(calls) > 0 {
				return
			}
		}
		switch {
		case d.done:
		case d.planner.End(0, true):
			d.planner.Next(0)
			continue
		default:
			if n := d.planner.Undone(0); n >= 0 && d.mutant != keptResult {
				d.missed[int(d.planner.Calls[n].Server)] = true
			}
			d.planner.Answer(0, &d.answer, func(dst []byte) []byte { return dst })
			d.done, d.whole = true, d.planner.Stored(0)
			if strings.HasPrefix(d.told[0], "gets") {
				d.token = shownToken(d.answer.String())
			}
			var reply []byte
			reply, _, d.lives = d.planner.Life(0)
			d.fetched = string(reply)
		}
		d.planner.Reset()
		d.sent = 0
		if d.planner.Checking() == 0 || d.waits > 0 || d.mutant == noCheck {
			d.idle = true
			return
		}
		d.planner.PlanChecks()
	}
}

func (d *driver) Reply(server int, reply string) {
	defer d.loseUnreached()
	d.told = append(d.told, fmt.Sprint(server, reply))
	d.unread[server] += d.disguise(reply)
	for len(d.waiting[server]) > 0 && d.unread[server] != "" {
		n := d.waiting[server][0]
		if n == earlyLook {
			d.early[server], d.unread[server], d.waiting[server] = d.unread[server], "", d.waiting[server][1:]
			d.send()
			continue
		}
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
		last, value, ok := d.planner.Element(n, &r, []byte(element), start, start+size)
		if !ok {
			d.misfits(server)
			return
		}
		if value && d.drops {
			d.planner.Cut(n)
			d.reply[server] = d.reply[server][:start]
		}
		if !last {
			continue
		}
		d.planner.Done(n, r.Kind, []byte(d.reply[server]))
		d.reply[server] = ""
		d.waiting[server] = d.waiting[server][1:]
		d.send()
	}
}

// misfits closes the connection to a server that replied something that does not fit.
func (d *driver) misfits(server int) {
	require.True(d.t, d.lies, "%q was answered with %q", d.request.Raw, d.reply[server]+d.unread[server])
	d.Lost(server)
}

func (d *driver) Lost(server int) {
	d.told = append(d.told, fmt.Sprint(server, "lost"))
	d.out[server] = ""
	calls := d.waiting[server]
	d.waiting[server], d.reply[server], d.unread[server] = nil, "", ""
	for _, n := range calls {
		if n == earlyLook {
			continue
		}
		all := d.planner.Missed(n, func([]byte) { d.missed[server] = true })
		d.missed[server] = d.missed[server] || all
		d.planner.NoAnswer(n, fmt.Appendf(nil, "SERVER_ERROR server-%d: lost\r\n", server+1), true)
	}
	d.planner.Servers[server].Readable = d.planner.Servers[server].Readable && !d.missed[server]
	if len(calls) > 0 {
		d.send()
	}
}

func (d *driver) Out(server int) string {
	out := d.out[server]
	d.out[server] = ""
	return out
}

func (d *driver) Answer() (string, bool) { return d.answer.String(), d.done }

func (d *driver) Busy() bool { return !d.idle }

func (d *driver) AppendState(dst []byte) []byte {
	dst = fmt.Appendf(dst, "%s %t %t %q %v %q %q %v %q ", d.token, d.done, d.idle, d.answer.String(), d.waiting,
		d.unread, d.reply, d.missed, d.early)
	for s := range d.planner.Servers {
		dst = fmt.Appendf(dst, "%t ", d.planner.Servers[s].Readable)
	}
	return d.planner.AppendState(dst)
}
