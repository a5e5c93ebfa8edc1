package plan_test

import (
	"bufio"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/mctest/explore"
	"mcmw/internal/mctest/model"
	"mcmw/internal/mctest/strict"
	"mcmw/internal/replica"
	"mcmw/internal/route"
)

// exploredCommands are commands for one key. Their cas is that of what the servers hold at first.
var exploredCommands = []string{
	"set k 0 0 1\r\n1\r\n",
	"add k 0 0 1\r\n2\r\n",
	"append k 0 0 1\r\n3\r\n",
	"cas k 0 0 1 2\r\n4\r\n",
	"incr k 1\r\n",
	"delete k\r\n",
	"ms k 1 C2 q\r\n6\r\n",
	"ma k N0 J5 v\r\n",
	"gat 0 k\r\n",
	"gets k\r\n",
}

// stored is what every server holds at first.
var stored = func() (s model.Server) {
	s.Put("k", model.Item{Value: "9", CAS: 2})
	return s
}()

// computes is called by tests that compute for long.
func computes(t *testing.T) {
	t.Helper()
	mctest.RaceSkips(t, mctest.Computes)
	t.Parallel()
}

// tally is what the explorations of a test have seen.
type tally struct {
	t           *testing.T
	states, cut int
}

// newTally returns a tally that is logged at the end of the test.
func newTally(t *testing.T) *tally {
	c := &tally{t: t}
	t.Cleanup(func() { t.Logf("%d states, %d histories cut off", c.states, c.cut) })
	return c
}

// holds adds an exploration that must not have failed. what describes it.
func (c *tally) holds(r explore.Result, failure *explore.Failure, what string, args ...any) {
	c.t.Helper()
	what = fmt.Sprintf(what, args...)
	require.Nil(c.t, failure, "%s: %v", what, failure)
	c.t.Logf("%s: %+v", what, r)
	c.states += r.States
	if r.Cut {
		c.cut++
	}
}

// finds requires that each world, by the name of the fault that was put into it, breaks its checks.
func finds[World any](t *testing.T, worlds map[string]World,
	explores func(t *testing.T, name string, w World) (explore.Result, *explore.Failure),
) {
	t.Helper()
	for name, w := range worlds {
		t.Run(name, func(t *testing.T) {
			r, failure := explores(t, name, w)
			require.NotNil(t, failure, "%d states", r.States)
			t.Log(failure)
		})
	}
}

// planned returns a world in which a worker of its own serves each command. middlewares are the workers' middlewares.
func planned(t *testing.T, servers int, ack replica.Ack, faults explore.Faults, middlewares []int,
	commands ...string,
) func() *explore.World {
	return func() *explore.World {
		w := &explore.World{Faults: faults}
		for range servers {
			w.Servers = append(w.Servers, stored.Clone())
		}
		for i, command := range commands {
			w.Workers = append(w.Workers, &explore.Worker{
				Middleware: middlewares[i], Driver: newDriver(t, servers, ack, route.ReadPrimary),
				Commands: []string{command},
			})
		}
		return w
	}
}

// alike returns an error if servers that missed no write hold different values.
func alike(w *explore.World) error {
	missed := map[int]bool{}
	for _, worker := range w.Workers {
		maps.Copy(missed, worker.Driver.(*driver).missed)
	}
	values := map[string]bool{}
	for s, server := range w.Servers {
		// A replica may lack the key: memcached can evict it at any time.
		if it, ok := server.Get("k"); ok && !missed[s] {
			values[it.Value] = true
		}
	}
	if len(values) > 1 {
		return fmt.Errorf("the servers hold %v", slices.Sorted(maps.Keys(values)))
	}
	return nil
}

func TestReplicasBehindOneMiddlewareAreAlikeInEveryOrderOfMessages(t *testing.T) {
	computes(t)
	kinds := []explore.Faults{{}, {Evictions: 1, Key: "k"}}
	acks := []replica.Ack{replica.AckAll}
	if mctest.Long() {
		kinds = append(kinds, explore.Faults{Breaks: 1}, explore.Faults{Breaks: 1, Evictions: 1, Key: "k"})
		acks = append(acks, replica.AckQuorum, replica.AckAny)
	}
	sum := newTally(t)
	for _, ack := range acks {
		for _, faults := range kinds {
			for i, a := range exploredCommands {
				for _, b := range exploredCommands[i:] {
					r, failure := explore.All(planned(t, 2, ack, faults, []int{0, 0}, a, b), 1_000_000,
						explore.Checks{AtEnd: func(w *explore.World) error {
							if faults != (explore.Faults{}) {
								return alike(w)
							}
							return errors.Join(alike(w), linear(w, &stored))
						}})
					sum.holds(r, failure, "%q and %q, ack %s, %+v", a, b, ack, faults)
				}
			}
		}
	}
}

// linear returns an error if the answers are not those of one memcached that serves the commands one after the other,
// each between its beginning and its end.
func linear(w *explore.World, first *model.Server) error {
	serve := func(o explore.Operation, server *model.Server) (*model.Server, bool) {
		after := server.Clone()
		q, err := strict.Read(bufio.NewReader(strings.NewReader(o.Command)))
		return after, err == nil && after.Do(&q) == o.Answer
	}
	if !explore.Linear(w.History(), first, serve) {
		return errors.New("no order of the commands explains the answers")
	}
	return nil
}

func TestReplicasBehindTwoMiddlewaresDiffer(t *testing.T) {
	_, failure := explore.All(planned(t, 2, replica.AckAll, explore.Faults{}, []int{0, 1}, exploredCommands[0],
		"set k 0 0 1\r\n7\r\n"),
		1_000_000, explore.Checks{AtEnd: alike})
	require.NotNil(t, failure)
	assert.ErrorContains(t, failure, "the servers hold [1 7]")
}
