package plan_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"mcmw/internal/large"
	"mcmw/internal/mctest"
	"mcmw/internal/mctest/explore"
	"mcmw/internal/mctest/model"
	"mcmw/internal/plan"
	"mcmw/internal/replica"
	"mcmw/internal/route"
)

// Commands with values of three bytes, which are stored in chunks of two, and with one value that fits into an item.
const (
	setABC, setDEF, addGHI = "set k 0 0 3\r\nabc\r\n", "set k 0 0 3\r\ndef\r\n", "add k 0 0 3\r\nghi\r\n"
	setSmall, getK, gatK   = "set k 0 0 1\r\nx\r\n", "get k\r\n", "gat 0 k\r\n"
	deleteK, replaceGHI    = "delete k\r\n", "replace k 0 0 3\r\nghi\r\n"
)

// chunkWorld is a world of middlewares with values in chunks. Each middleware has clients of its own.
type chunkWorld struct {
	servers int
	// clients are, by middleware, the commands of each of its clients.
	clients [][][]string
	faults  explore.Faults
	mutant  mutant
	// alike: all values have the same version.
	alike bool
}

// versionOf returns the version of the n-th value of a client.
func versionOf(client, n int) large.Version { return large.Version{byte(client), byte(n)} }

func (s *chunkWorld) explore(t *testing.T, limit int) (explore.Result, *explore.Failure) {
	router := newRouter(t, s.servers, route.ReadPrimary)
	return explore.UpTo(func() *explore.World {
		w := &explore.World{Faults: s.faults}
		for range s.servers {
			w.Servers = append(w.Servers, &model.Server{})
		}
		for m, clients := range s.clients {
			missed := map[int]bool{}
			for _, commands := range clients {
				var versions *plan.Versions
				if len(s.clients) > 1 {
					versions = plan.NewVersions(uint64(100*len(w.Workers)), 1)
				}
				client, n := len(w.Workers), 0
				d := driveLarge(t, router, replica.AckAll, versions,
					plan.Large{Limit: 10, Item: large.ItemOverhead + 2}, func() large.Version {
						if n++; s.alike {
							return versionOf(0, 0)
						}
						return versionOf(client, n)
					})
				d.mutant, d.missed = s.mutant, missed
				w.Workers = append(w.Workers, &explore.Worker{
					Middleware: m, Driver: d,
					Commands: slices.Clone(commands),
				})
			}
		}
		return w
	}, limit, explore.Checks{Always: s.whole, AtEnd: s.linear})
}

// whole returns an error if a get was answered with anything but a miss, an error or a value that a client has sent.
func (s *chunkWorld) whole(w *explore.World) error {
	for _, o := range w.History() {
		if !strings.Contains(o.Answer, "VALUE") {
			continue
		}
		_, data, _ := strings.Cut(o.Answer, "\r\n")
		data, _, _ = strings.Cut(data, "\r\n")
		if !slices.Contains([]string{"abc", "def", "ghi", "x"}, data) {
			return fmt.Errorf("torn: %q", o.Answer)
		}
	}
	return nil
}

// linear returns an error if the answers are not those of one server that serves the commands in some order. With
// faults a failed command may have been served or not, and the value may disappear at any time, but never come back. It
// disappears for all commands at once, unless there are several servers, each of which evicts on its own. If the fault
// evicts a chunk of abc, only that value disappears.
func (s *chunkWorld) linear(w *explore.World) error {
	faulty := s.faults != explore.Faults{}
	apart := faulty && (s.servers > 1 || s.faults.Breaks+s.faults.Deaths > 0)
	ofABC := faulty && s.servers == 1 && strings.HasPrefix(s.faults.Key, "mcmw:large:")
	serve := func(o explore.Operation, held string) (string, bool) {
		verb := strings.Fields(o.Command)[0]
		mayGo := faulty && (!ofABC || held == "abc")
		failed := o.Answer == "" || strings.Contains(o.Answer, "SERVER_ERROR")
		switch {
		case failed && !faulty:
			return held, false
		case verb == "get" || verb == "gat":
			miss := o.Answer == "END\r\n" && mayGo
			if miss {
				held = ""
			}
			want := "END\r\n"
			if held != "" {
				want = fmt.Sprintf("VALUE k 0 %d\r\n%s\r\nEND\r\n", len(held), held)
			}
			return held, failed || o.Answer == want
		case verb == "delete":
			return "", failed || o.Answer == "DELETED\r\n" && (held != "" || apart) || o.Answer == "NOT_FOUND\r\n" &&
				(held == "" || mayGo)
		case o.Answer == "NOT_STORED\r\n" && verb == "add":
			return held, held != "" || apart
		case o.Answer == "NOT_STORED\r\n":
			return "", held == "" || mayGo
		case verb == "add" && held != "" && !mayGo, verb == "replace" && held == "" && !apart:
			return held, failed
		}
		return value(o.Command), failed || o.Answer == "STORED\r\n"
	}
	if !faulty {
		if explore.Linear(w.History(), "", serve) {
			return nil
		}
	} else if inDoubt(w.History(), func(history []explore.Operation) bool {
		return explore.Linear(history, "", serve)
	}) {
		return nil
	}
	return errors.New("no order of the commands explains the answers")
}

// inDoubt reports whether ok holds for a history in which each failed write was served before its answer, later, or
// never.
func inDoubt(history []explore.Operation, ok func([]explore.Operation) bool) bool {
	at := slices.IndexFunc(history, func(o explore.Operation) bool {
		return o.Answer != wasServed && !strings.HasPrefix(o.Command, "g") &&
			(o.Answer == "" || strings.Contains(o.Answer, "SERVER_ERROR"))
	})
	if at < 0 {
		return ok(history)
	}
	now, later := slices.Clone(history), slices.Clone(history)
	now[at].Answer, later[at].Answer, later[at].Ended = wasServed, wasServed, 0
	return inDoubt(now, ok) || inDoubt(later, ok) || inDoubt(slices.Delete(slices.Clone(history), at, at+1), ok)
}

// wasServed is the answer of a write that was served although it failed.
const wasServed = "SERVER_ERROR but served"

// firstChunk returns the key of chunk k of the first value that the first client stores.
func firstChunk(k int) string {
	h := large.Head{Version: versionOf(0, 1)}
	return string(h.AppendKey(nil, k))
}

// splitStates is the number of states of a world that the short form explores.
const splitStates = 250

func TestValuesInChunksAreWholeOrMissesInEveryOrderOfMessages(t *testing.T) {
	computes(t)
	limit := splitStates
	if mctest.Long() {
		limit = 20_000
	}
	kinds := []explore.Faults{
		{},
		{Evictions: 1, Key: firstChunk(0)},
		{Evictions: 1, Key: firstChunk(1)},
		{Evictions: 1, Key: "k"},
		{Breaks: 1},
		{Deaths: 1},
	}
	sum := newTally(t)
	for name, clients := range map[string][][][]string{
		"one mcmw": {{{setABC, getK}, {setDEF, getK}}}, "deletes": {{{setABC, deleteK}, {getK, getK}}},
		"adds":   {{{setABC, addGHI}, {addGHI, gatK}}},
		"misses": {{{setABC, getK, addGHI}, {setDEF, getK}}}, "replaced": {{{setABC, getK, replaceGHI}, {getK}}},
		"two mcmw, misses": {{{setABC, getK, addGHI}}, {{getK}}},
		"small":            {{{setABC, setSmall}, {getK, setDEF}}}, "two mcmw": {{{setABC, getK}}, {{setDEF, getK}}},
		"two mcmw, adds": {{{setABC, deleteK}}, {{addGHI, getK}}},
	} {
		for _, servers := range []int{1, 2} {
			for _, faults := range kinds {
				if len(clients) > 1 && faults.Breaks+faults.Deaths > 0 && servers > 1 {
					continue // after such faults only a mark or a sweep makes servers agree
				}
				if (name == "misses" || name == "replaced") && faults.Evictions > 0 && servers > 1 {
					continue // each server evicts on its own: what only one of them stores then is deleted again
				}
				s := chunkWorld{servers: servers, clients: clients, faults: faults}
				r, failure := s.explore(t, limit)
				sum.holds(r, failure, "%s, %d servers, %+v", name, servers, faults)
			}
		}
	}
}

func TestFaultsInjectedIntoValuesInChunksAreFound(t *testing.T) {
	computes(t)
	for name, s := range map[string]chunkWorld{
		"one version for all values": {
			servers: 1, clients: [][][]string{{{setABC, getK}}, {{setDEF, getK}}},
			alike: true,
		},
		string(lostChunk): {servers: 1, clients: [][][]string{{{setABC, getK}}}, mutant: lostChunk},
		string(blindDiscard): {
			servers: 1, clients: [][][]string{{{setABC, getK}, {setDEF, getK}}},
			mutant: blindDiscard, faults: explore.Faults{Evictions: 1, Key: firstChunk(0)},
		},
		string(keptHead): {
			servers: 1, clients: [][][]string{{{setABC, getK, addGHI}}}, mutant: keptHead,
			faults: explore.Faults{Evictions: 1, Key: firstChunk(1)},
		},
	} {
		_, failure := s.explore(t, 50_000)
		if assert.NotNil(t, failure, name) {
			assert.ErrorContains(t, failure, "no order of the commands explains the answers", name)
		}
	}
}
