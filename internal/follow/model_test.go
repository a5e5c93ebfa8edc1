package follow

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/mctest/explore"
	"mcmw/internal/mctest/model"
	"mcmw/internal/protocol"
)

// The servers of the model: that of the followed pool, and that of the following pool, which is reached by another
// connection after a break.
const (
	followed = iota
	following
	again
	connections
)

// planted is a defect that the explorer must find.
type planted uint8

const (
	nothing     planted = iota
	unconfirmed         // the pool is not looked at again after a copy
	repeated            // a copy that was lost is copied again
	once                // a copy that was lost is followed by one delete
	early               // a write is owed when it is sent
	forgetful           // a write during the delivery of its key is forgotten
	abandoned           // nobody takes over the debts of a middleware that died
)

var plantedNames = [...]string{
	"nothing", "a copy is not confirmed", "a lost copy is copied again", "a lost copy is followed by one delete",
	"a write is owed when it is sent", "a write during a delivery is forgotten", "nobody takes over",
}

// writer is a driver that serves a client's write in the followed pool, and owes it.
type writer struct {
	defect planted
	ledger *Ledger
	out    string
	answer string
}

func (*writer) Locks(string) ([]string, bool) { return nil, false }

func (w *writer) Start(command string) {
	w.out, w.answer = command, ""
	if w.defect == early {
		w.ledger.Owe([]byte("k"), true, epoch)
	}
}

func (w *writer) Reply(_ int, reply string) {
	if w.answer = reply; w.defect != early {
		w.ledger.Owe([]byte("k"), true, epoch)
	}
}

func (w *writer) Lost(server int) {
	if server != followed {
		return
	}
	w.out, w.answer = "", "SERVER_ERROR\r\n"
	w.ledger.Owe([]byte("k"), false, epoch)
}

func (w *writer) Out(server int) (out string) {
	if server == followed {
		out, w.out = w.out, ""
	}
	return out
}

func (w *writer) Answer() (string, bool) { return w.answer, w.answer != "" }
func (w *writer) Busy() bool             { return w.answer == "" }

func (w *writer) AppendState(dst []byte) []byte { return fmt.Appendf(dst, "%q %q", w.out, w.answer) }

var epoch = time.Unix(1e9, 0)

// payer is a driver that delivers what a ledger owes, one debt at a time. Its commands are "pay"; "later", after
// Lateness; and "adopt", for all keys of the following server.
type payer struct {
	defect planted
	ledger *Ledger
	now    time.Time
	adopts bool

	step    string // what is under way: "", look, deliver, confirm
	debt    Debt
	present Present
	to      int // connection to the following server
	server  int // to which out is sent
	out     string
}

func (*payer) Locks(string) ([]string, bool) { return nil, false }

func (p *payer) Start(command string) {
	switch command {
	case "later":
		p.now = p.now.Add(Lateness)
	case "adopt":
		p.adopts = true
		if p.defect != abandoned {
			p.ledger.Owe([]byte("k"), true, p.now)
		}
	}
	p.take()
}

func (p *payer) take() {
	p.step, p.present = "", Present{}
	debts, _, _ := p.ledger.Take(1, false, p.now)
	if len(debts) == 0 {
		return
	}
	if p.debt = debts[0]; p.debt.Copy {
		p.ask("look", followed, Ask(p.debt.Key, true))
		return
	}
	p.deliver()
}

func (p *payer) ask(step string, server int, op protocol.Op) {
	p.step, p.server, p.out = step, server, string(op.Bytes())
}

func (p *payer) deliver() { p.ask("deliver", p.to, Delivery(p.debt, &p.present, true)) }

func (p *payer) Reply(_ int, reply string) {
	switch p.step {
	case "look":
		p.present = PresentOf([]byte(reply))
		p.deliver()
	case "deliver":
		code, _, _ := strings.Cut(strings.TrimSpace(reply), " ")
		switch o := Answered(code); {
		case p.present.Failed:
			p.settle(Refused)
		case o == Paid && p.debt.Copy && p.defect != unconfirmed:
			p.ask("confirm", followed, Ask(p.debt.Key, false))
		default:
			p.settle(o)
		}
	case "confirm":
		found := PresentOf([]byte(reply))
		p.settle(p.present.Confirm(&found))
	}
}

func (p *payer) settle(o Outcome) {
	if p.defect == forgetful {
		p.debt.number = p.ledger.writes
	}
	p.ledger.Settle(p.debt, o, p.now)
	if p.defect == once {
		p.ledger.Settle(p.debt, o, p.now)
	}
	p.take()
}

func (p *payer) Lost(server int) {
	if server == p.to {
		p.to = following + again - server
	}
	if p.step == "" || server != p.server {
		return
	}
	p.out = ""
	switch {
	case server == followed && p.step == "look":
		p.present.Failed = true
		p.deliver()
	case server == followed:
		p.settle(Refused)
	case p.defect == repeated:
		p.take()
	default:
		p.settle(Lost)
	}
}

func (p *payer) Out(server int) (out string) {
	if server == p.server {
		out, p.out = p.out, ""
	}
	return out
}

func (p *payer) Answer() (string, bool) { return "paid", p.step == "" }
func (p *payer) Busy() bool             { return p.step != "" }

func (p *payer) AppendState(dst []byte) []byte {
	dst = fmt.Appendf(dst, "%s %v %v %q %d %d %d ", p.step, p.debt, p.present, p.out, p.server, p.to, p.now.Unix())
	for e := p.ledger.order.Front(); e != nil; e = e.Next() {
		d := e.Value.(*debt)
		dst = fmt.Appendf(dst, "%v %d %t %d,", d.Debt, d.first, d.late, d.due.Unix())
	}
	return fmt.Appendf(dst, "%d", p.ledger.writes)
}

// store is a write of k by a middleware that gives versions.
func store(value string, version int) string {
	return fmt.Sprintf("ms k %d E%d\r\n%s\r\n", len(value), protocol.FirstVersion+version, value)
}

const remove = "md k\r\n"

// followedBy returns a world of two middlewares with these writes, and of a third one, which takes over.
func followedBy(defect planted, faults explore.Faults, writes ...[]string) func() *explore.World {
	return func() *explore.World {
		main, other := &model.Server{}, &model.Server{}
		for _, s := range []*model.Server{main, other} {
			s.Put("k", model.Item{Value: "0", CAS: protocol.FirstVersion})
		}
		w := &explore.World{Faults: faults, Servers: []*model.Server{main, other, other}}
		add := func(middleware int, driver explore.Driver, silent bool, commands ...string) {
			w.Workers = append(w.Workers, &explore.Worker{
				Middleware: middleware, Driver: driver, Commands: commands, Silent: silent,
			})
		}
		for i, commands := range writes {
			ledger := NewLedger(1 << 20)
			add(i, &writer{defect: defect, ledger: ledger}, false, commands...)
			pays := slices.Repeat([]string{"pay"}, len(commands))
			add(i, &payer{defect: defect, ledger: ledger, now: epoch, to: following}, true, append(pays, "later")...)
		}
		if faults.Deaths > 0 {
			add(len(writes), &payer{defect: defect, ledger: NewLedger(1 << 20), now: epoch, to: following}, true,
				"adopt", "later")
		}
		w.May = may
		return w
	}
}

// may says when payers start: a pay, when there is something to pay or will be nothing; what waits for lost requests,
// when there are none; and who takes over, when all others have ended.
func may(w *explore.World, i int) bool {
	p, ok := w.Workers[i].Driver.(*payer)
	if !ok {
		return true
	}
	switch w.Workers[i].Commands[0] {
	case "pay":
		return p.ledger.order.Len() > 0 || w.Workers[i-1].Ended()
	case "later":
		return !w.Workers[i].Late() && (p.adopts || w.Workers[i-1].Ended())
	}
	return !slices.ContainsFunc(w.Workers[:i], func(o *explore.Worker) bool { return !o.Ended() })
}

// check returns an error if the following server holds an item that the followed one does not hold. If an unanswered
// write has made the followed one what it is, that is the writer's concern.
func check(w *explore.World) error {
	copied, held := w.Servers[following].Get("k")
	original, kept := w.Servers[followed].Get("k")
	unanswered := slices.ContainsFunc(w.History(), func(o explore.Operation) bool {
		command := remove
		if kept {
			command = original.Value + "\r\n"
		}
		return (o.Answer == "" || strings.HasPrefix(o.Answer, "SERVER_ERROR")) && strings.HasSuffix(o.Command, command)
	})
	if !held || kept && copied.Value == original.Value || unanswered {
		return nil
	}
	return fmt.Errorf("the following server holds %q, and the followed one %q", copied.Value, original.Value)
}

func TestAFollowingPoolNeverKeepsAnOlderValue(t *testing.T) {
	for _, c := range []struct {
		name   string
		faults explore.Faults
		writes [][]string
	}{
		{"two middlewares write at once", explore.Faults{}, [][]string{{store("1", 1)}, {store("2", 2)}}},
		{"one stores, another deletes", explore.Faults{}, [][]string{{store("1", 1)}, {remove}}},
		{"a delivery is lost", explore.Faults{Breaks: 1}, [][]string{{store("1", 1), store("2", 2)}}},
		{"a delivery is lost and another pays", explore.Faults{Breaks: 1}, [][]string{{store("1", 1)}, {remove}}},
		{"a middleware dies", explore.Faults{Deaths: 1}, [][]string{{store("1", 1)}, {store("2", 2)}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			limit := 4000
			if mctest.Long() {
				limit = 200_000
			}
			build := followedBy(nothing, c.faults, c.writes...)
			result, failure := explore.UpTo(build, limit, explore.Checks{AtEnd: check})
			require.Nil(t, failure, "%v", failure)
			assert.False(t, mctest.Long() && result.Cut, "there are more states")
			assert.Positive(t, result.Ends)
		})
	}
}

func TestTheExplorerFindsDefectsOfDeliveries(t *testing.T) {
	breaks := explore.Faults{Breaks: 1}
	for _, c := range []struct {
		defect planted
		faults explore.Faults
		writes [][]string
	}{
		{unconfirmed, explore.Faults{}, [][]string{{store("1", 1)}, {store("2", 2)}}},
		{repeated, breaks, [][]string{{store("1", 1), remove}}},
		{once, breaks, [][]string{{store("1", 1), remove}}},
		{early, explore.Faults{}, [][]string{{store("1", 1)}}},
		{forgetful, explore.Faults{}, [][]string{{store("1", 1), store("2", 2)}}},
		{abandoned, explore.Faults{Deaths: 1}, [][]string{{store("1", 1)}}},
	} {
		t.Run(plantedNames[c.defect], func(t *testing.T) {
			t.Parallel()
			build := followedBy(c.defect, c.faults, c.writes...)
			_, failure := explore.UpTo(build, 500_000, explore.Checks{AtEnd: check})
			require.NotNil(t, failure)
			t.Log(failure)
		})
	}
}
