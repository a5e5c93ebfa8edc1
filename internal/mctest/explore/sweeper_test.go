package explore_test

import (
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/link"
	"mcmw/internal/mctest"
	"mcmw/internal/mctest/explore"
	"mcmw/internal/mctest/model"
	"mcmw/internal/protocol"
	"mcmw/internal/sweep"
)

// sweeper is a driver that compares the copies of a key and deletes copies that differ, as package sweep decides. Its
// command is "sweep KEY". All servers are holders of the key, in their order.
type sweeper struct {
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

// newSweeper returns a sweeper for a number of servers.
func newSweeper(servers int) *sweeper {
	return &sweeper{servers: servers, out: make([]string, servers), waiting: make([]bool, servers)}
}

func (*sweeper) Locks(string) ([]string, bool) { return nil, false }

func (s *sweeper) Start(command string) {
	*s = *newSweeper(s.servers)
	s.key, s.busy = strings.TrimPrefix(command, "sweep "), true
	s.look()
}

// maxLooks bounds the looks at a key that keeps changing.
const maxLooks = 6

func (s *sweeper) look() {
	if s.looks++; s.looks > maxLooks {
		s.busy = false
		return
	}
	s.copies, s.cutting = make([]sweep.Copy, s.servers), false
	for i := range s.out {
		s.ask(i, link.Key(s.key).Ask(protocol.ForItem))
	}
}

func (s *sweeper) ask(server int, op protocol.Op) {
	s.out[server] = string(op.Bytes())
	s.waiting[server] = true
}

func (s *sweeper) Reply(server int, reply string) {
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

// Without a reply there is no copy.
func (s *sweeper) Lost(server int) {
	s.out[server], s.waiting[server] = "", false
	if slices.Contains(s.waiting, true) {
		return
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
			s.ask(i, link.Key(s.key).Cut(s.copies[i].CAS))
		}
	}
}

func (s *sweeper) Out(server int) string {
	out := s.out[server]
	s.out[server] = ""
	return out
}

// The answer comes when the sweep has ended.
func (s *sweeper) Answer() (string, bool) { return "swept", !s.busy }

func (s *sweeper) Busy() bool { return s.busy }

func (s *sweeper) AppendState(dst []byte) []byte {
	return fmt.Appendf(dst, "%v %v %q %v %t %d %t", s.judge, s.copies, s.out, s.waiting, s.cutting, s.looks, s.busy)
}

// versioned returns a write of k without a check: that of a middleware which is killed before the check.
func versioned(value string, version int) string {
	return fmt.Sprintf("ms k %d E%d\r\n%s\r\n", len(value), 1<<62+version, value)
}

// swept returns a world in which every command, and the sweep, has its own middleware.
func swept(servers int, faults explore.Faults, commands ...string) func() *explore.World {
	return func() *explore.World {
		w := &explore.World{Faults: faults}
		for range servers {
			s := &model.Server{}
			s.Put("k", model.Item{Value: "0", CAS: 1 << 62})
			w.Servers = append(w.Servers, s)
		}
		for i, command := range commands {
			worker := &explore.Worker{
				Middleware: i, Driver: &naive{out: make([]string, servers)},
				Commands: []string{command},
			}
			if strings.HasPrefix(command, "sweep") {
				worker.Driver = newSweeper(servers)
			}
			w.Workers = append(w.Workers, worker)
		}
		return w
	}
}

// oneValue returns an error if the servers that hold k hold different values.
func oneValue(w *explore.World) error {
	held := map[string]bool{}
	for _, s := range w.Servers {
		if it, ok := s.Get("k"); ok {
			held[it.Value] = true
		}
	}
	if len(held) > 1 {
		return fmt.Errorf("the servers hold %v", slices.Sorted(maps.Keys(held)))
	}
	return nil
}

// sweepNow runs a sweep while nothing else is in flight. It returns an error if the servers differ afterwards, or if an
// item on which they agreed is gone.
func sweepNow(w *explore.World) error {
	before := map[string]int{}
	for _, s := range w.Servers {
		if it, ok := s.Get("k"); ok {
			before[it.Value]++
		}
	}
	after, failure := explore.All(func() *explore.World {
		alone := &explore.World{Workers: []*explore.Worker{{
			Driver:   newSweeper(len(w.Servers)),
			Commands: []string{"sweep k"},
		}}}
		for _, s := range w.Servers {
			alone.Servers = append(alone.Servers, s.Clone())
		}
		return alone
	}, 10_000, explore.Checks{AtEnd: func(alone *explore.World) error {
		held := 0
		for _, s := range alone.Servers {
			if _, ok := s.Get("k"); ok {
				held++
			}
		}
		agreed := 0
		for _, copies := range before {
			agreed += copies
		}
		if len(before) == 1 && held != agreed || len(before) > 0 && held == 0 {
			return fmt.Errorf("the servers held %v, and %d copies are left", before, held)
		}
		return oneValue(alone)
	}})
	if failure != nil {
		return failure
	}
	if after.Ends == 0 {
		return errors.New("the sweep never ends")
	}
	return nil
}

func TestOneSweepAfterTheDeathOfAMiddlewareMakesReplicasAgree(t *testing.T) {
	a, b := versioned("1", 1), versioned("2", 2)
	for name, build := range map[string]func() *explore.World{
		"two servers, two writes":   swept(2, explore.Faults{Deaths: 1}, a, b),
		"three servers, one write":  swept(3, explore.Faults{Deaths: 1}, a),
		"three servers, evictions":  swept(3, explore.Faults{Deaths: 1, Evictions: 2, Key: "k"}, a),
		"a delete that is cut off":  swept(3, explore.Faults{Deaths: 1}, "md k\r\n"),
		"writes that are never cut": swept(2, explore.Faults{}, a, b),
	} {
		t.Run(name, func(t *testing.T) {
			differed := false
			result, failure := explore.All(build, 1_000_000, explore.Checks{AtEnd: func(w *explore.World) error {
				differed = differed || oneValue(w) != nil
				return sweepNow(w)
			}})
			require.Nil(t, failure, "%v", failure)
			if name != "a delete that is cut off" {
				assert.True(t, differed, "some histories must leave a difference for the sweep")
			}
			t.Log(result)
		})
	}
}

// A sweep may run at any time during writes. It deletes only versions that it saw, so a write that all servers
// acknowledged is lost only on servers where a later write has replaced it.
func TestASweepDuringWritesNeverBringsBackAReplacedValue(t *testing.T) {
	histories := map[string][]string{"a write": {versioned("1", 1), "sweep k"}, "a delete": {"md k\r\n", "sweep k"}}
	if mctest.Long() {
		histories["two writes"] = []string{versioned("1", 1), versioned("2", 2), "sweep k"}
		histories["two sweeps"] = []string{versioned("1", 1), "sweep k", "sweep k"}
	}
	for name, commands := range histories {
		t.Run(name, func(t *testing.T) {
			result, failure := explore.All(swept(2, explore.Faults{}, commands...), 5_000_000,
				explore.Checks{AtEnd: func(w *explore.World) error {
					for s, server := range w.Servers {
						if it, ok := server.Get("k"); ok && it.Value == "0" {
							return fmt.Errorf("server %d holds the first value", s)
						}
					}
					return sweepNow(w)
				}})
			require.Nil(t, failure, "%v", failure)
			t.Log(result)
		})
	}
}
