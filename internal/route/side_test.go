package route

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestServersBeingFilledComeAfterTheOthersUnlessAllServersOfAKeyAreFilled(t *testing.T) {
	pool := func(name string, n int) Pool {
		p := Pool{Name: name, Options: Options{Replicas: 2}}
		for i := range n {
			p.Servers = append(p.Servers, Server{Name: fmt.Sprintf("%s%d", name, i)})
		}
		return p
	}
	plain, err := NewPools([]Pool{pool("a", 2), pool("b", 5)}, Routes{Default: "b"})
	require.NoError(t, err)
	cold := []int{2, 5} // b0 and b3
	seen := map[string]int{}
	for _, phase := range []MigrationPhase{MigrationUndecided, MigrationWarmUp, MigrationCopy, MigrationDone} {
		r := plain.Migrate([]Move{{From: 1, To: 1, Phase: phase, Missed: true, Cold: "b0,b3"}})
		for i := range 200 {
			key := fmt.Appendf(nil, "key-%d", i)
			in, holders := r.In(key), plain.Replicas(key, nil)
			first, second := slices.Contains(cold, holders[0]), slices.Contains(cold, holders[1])
			divided := first != second && phase != MigrationDone
			seen[fmt.Sprint(first, second)]++
			want := slices.Clone(holders)
			if divided && first {
				slices.Reverse(want)
			}
			readers := want
			if divided {
				readers = want[:1]
			}
			require.Equal(t, want, r.Replicas(key, nil), "%s %s", phase, key)
			require.Equal(t, readers, r.Readers(key, nil))
			require.Equal(t, want[0], r.Primary(key))
			require.Empty(t, r.Emptied(key, nil))
			require.Equal(t, divided, in.OldFirst(key))
			require.Equal(t, divided && first && phase == MigrationUndecided, in.Undecided(key, want[0]))
			require.True(t, r.Holds(strings.Fields("a0 a1 b0 b1 b2 b3 b4")[holders[1]], key))
			if phase != MigrationDone {
				require.Equal(t, []bool{first, second}, []bool{in.IsNew(holders[0]), in.IsNew(holders[1])})
				others, filled := plain.Pools()[1].Divide("b0,b3")
				require.Equal(t, first && second, len(filled.Replicas(key, nil)) == 0 && slices.Contains(cold, others.Primary(key)))
			}
		}
		for s := range 7 {
			require.Equal(t, phase == MigrationWarmUp && slices.Contains(cold, s), r.WarmsUpServer(s))
		}
	}
	require.Len(t, seen, 4, "%v", seen)
}
