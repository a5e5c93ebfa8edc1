package middleware_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
	"mcmw/internal/route"
)

// movedKeys are the keys whose values must survive.
const movedKeys = 1000

// keepMoved stores the keys through c, every tenth with an expiry.
func keepMoved(t *testing.T, c *mctest.Client) {
	t.Helper()
	for i := range movedKeys {
		require.Equal(t, "STORED\r\n", c.MustDo(t, fmt.Sprintf("set moved-%d %d %d 3\r\n%03d\r\n", i, i,
			map[bool]int{true: 3600}[i%10 == 0], i)))
	}
}

// movedHits returns how many of the keys are found through c.
func movedHits(t *testing.T, c *mctest.Client) (n int) {
	t.Helper()
	for i := range movedKeys {
		switch reply := c.MustDo(t, fmt.Sprintf("get moved-%d\r\n", i)); reply {
		case fmt.Sprintf("VALUE moved-%d %d 3\r\n%03d\r\nEND\r\n", i, i, i):
			n++
		default:
			require.Equal(t, "END\r\n", reply)
		}
	}
	return n
}

func TestKeysThatMoveKeepTheirValuesWhileServersJoinAndLeave(t *testing.T) {
	for _, replicas := range []int{1, 2} {
		for _, rate := range []int{1_000_000, 0} {
			if replicas == 2 && rate == 0 {
				continue
			}
			t.Run(fmt.Sprintf("%d replicas, rate %d", replicas, rate), func(t *testing.T) {
				t.Parallel()
				servers := mwtest.Servers(mctest.StartNewMemcacheds(t, 4)...)
				o := spread(servers[:3:3])
				o.RefillRate, o.Placement.Replicas, o.Placement.Read = rate, replicas, route.ReadPrimary
				fleet := []*mwtest.MW{mwtest.Start(t, o), mwtest.Start(t, o)}
				keepMoved(t, fleet[0].Dial(t))
				load := startTraffic(t, fleet...)
				for _, n := range []int{4, 3} {
					next := o
					next.Servers = servers[:n:n]
					applyAll(t, fleet, next, load)
					var phases []string
					for fleet[0].Phase() != "settled" {
						phases = append(phases, fleet[0].Phase())
						for _, m := range fleet {
							m.EndPhase()
							load.more()
						}
					}
					for _, m := range fleet {
						m.EndPhase() // the last phase of the change
						n := movedHits(t, m.Dial(t))
						t.Logf("%v: %d of %d values were kept", phases, n, movedKeys)
						if rate > 0 {
							require.Equal(t, []string{"delete-new", "copy", "hand-over", "read-new"}, phases)
							require.Equal(t, movedKeys, n)
						}
					}
				}
				load.stop()
				assert.Zero(t, load.stale.Load())
				t.Logf("%d rounds, %d missed", load.rounds.Load(), load.missed.Load())
				if rate == 0 {
					require.Less(t, movedHits(t, fleet[0].Dial(t)), movedKeys*95/100)
				}
				o.Servers = servers[:3:3]
				p, err := middleware.Verify(context.Background(), o, middleware.Verification{Values: true})
				require.NoError(t, err)
				require.Zero(t, p.Differ)
			})
		}
	}
}

// Without phases only the new server of a key is written: a copy could be added there after the key was deleted.
func TestAChangeOfServersDoesNotEndAtOnceWhileValuesAreCopied(t *testing.T) {
	for name, atOnce := range map[string]func(o *middleware.Options){
		"one writer": func(o *middleware.Options) { o.Writers = middleware.WritersOne },
		"no phases":  func(o *middleware.Options) { o.ChangeStep = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servers := mwtest.Servers(mctest.StartNewMemcacheds(t, 4)...)
			o := spread(servers[:3:3])
			o.RefillRate, o.Placement.Read = 1_000_000, route.ReadPrimary
			m := mwtest.Start(t, o)
			keepMoved(t, m.Dial(t))
			o.Servers = servers
			require.NoError(t, m.Apply(context.Background(), o))
			next := o
			atOnce(&next)
			for _, phase := range []string{"copy", "hand-over"} {
				m.EndPhase()
				require.Equal(t, phase, m.Phase())
				require.ErrorAs(t, m.Apply(context.Background(), next), new(middleware.NotYet))
			}
			m.EndPhase()
			require.Equal(t, "read-new", m.Phase())
			require.NoError(t, m.Apply(context.Background(), next))
			require.Equal(t, "settled", m.Phase())
			require.Equal(t, movedKeys, movedHits(t, m.Dial(t)))
		})
	}
}
