package explore

import (
	"fmt"
	"hash/maphash"
	"strconv"
	"strings"

	"mcmw/internal/sweep"
)

// Sweeper is a driver that compares the copies of a key and deletes copies that differ, as package sweep decides. Its command is
// "sweep KEY". All servers are holders of the key, in their order.
type Sweeper struct {
	servers int

	key     string
	judge   sweep.Case
	copies  []sweep.Copy
	out     []string
	waiting []bool
	cutting bool // waiting for deletions
	looks   int
	busy    bool
}

// sumSeed makes sums equal in all worlds.
var sumSeed = maphash.MakeSeed()

// NewSweeper returns a sweeper for a number of servers.
func NewSweeper(servers int) *Sweeper {
	return &Sweeper{servers: servers, out: make([]string, servers), waiting: make([]bool, servers)}
}

// Locks implements Driver.
func (*Sweeper) Locks(string) ([]string, bool) { return nil, false }

// Start implements Driver.
func (s *Sweeper) Start(command string) {
	*s = *NewSweeper(s.servers)
	s.key, s.busy = strings.TrimPrefix(command, "sweep "), true
	s.look()
}

// maxLooks bounds the looks at a key that keeps changing.
const maxLooks = 6

func (s *Sweeper) look() {
	if s.looks++; s.looks > maxLooks {
		s.busy = false
		return
	}
	s.copies, s.cutting = make([]sweep.Copy, s.servers), false
	for i := range s.out {
		s.ask(i, sweep.AppendLook(nil, s.key, true))
	}
}

func (s *Sweeper) ask(server int, request []byte) {
	s.out[server] = string(request)
	s.waiting[server] = true
}

// Reply implements Driver.
func (s *Sweeper) Reply(server int, reply string) {
	if line, value, held := strings.Cut(reply, "\r\n"); held && !s.cutting && !strings.HasPrefix(line, "EN") {
		s.copies[server] = sweep.Copy{Held: true, Sum: maphash.String(sumSeed, value)}
		for _, word := range strings.Fields(line) {
			if word[0] == 'c' {
				s.copies[server].CAS, _ = strconv.ParseUint(word[1:], 10, 64)
			}
		}
	}
	s.Lost(server)
}

// Lost implements Driver: without a reply there is no copy.
func (s *Sweeper) Lost(server int) {
	s.out[server], s.waiting[server] = "", false
	for _, waiting := range s.waiting {
		if waiting {
			return
		}
	}
	if s.cutting {
		s.look()
		return
	}
	cut, again := s.judge.Look(s.copies)
	switch {
	case !again:
		s.busy = false
	case len(cut) == 0:
		s.look()
	default:
		s.cutting = true
		for _, i := range cut {
			s.ask(i, sweep.AppendCut(nil, s.key, s.copies[i].CAS))
		}
	}
}

// Out implements Driver.
func (s *Sweeper) Out(server int) string {
	out := s.out[server]
	s.out[server] = ""
	return out
}

// Answer implements Driver: the answer comes when the sweep has ended.
func (s *Sweeper) Answer() (string, bool) { return "swept", !s.busy }

// Busy implements Driver.
func (s *Sweeper) Busy() bool { return s.busy }

// AppendState implements Driver.
func (s *Sweeper) AppendState(dst []byte) []byte {
	return fmt.Appendf(dst, "%v %v %q %v %t %d %t", s.judge, s.copies, s.out, s.waiting, s.cutting, s.looks, s.busy)
}
