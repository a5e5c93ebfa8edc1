package clients

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
	"mcmw/internal/route"
)

// scenario is what every library does. A result may depend on the results before it.
var scenario = strings.Split(strings.TrimSpace(`
version
set a va
get a
get nope
add a vx
add n vn
replace nope v
replace a vr
append a tail
get a
set num 5
incr num 3
incr nope 3
get num
touch a 100
touch nope 100
set c c1
gets c
cas c c2
gets c
set c c3
cas c c4
get c
multi a num nope n
multi nope nope2
set gone v -1
get gone
set soon v 100
get soon
set big *300000
get big
set huge *3000000
get huge
set schlüssel wert
get schlüssel
delete a
delete a
get a
flush
get num
multi num n
`), "\n")

// Every library's results are those of memcached itself, with all copies and with one.
func TestLibrariesGetFromMcmwWhatMemcachedGivesThem(t *testing.T) {
	for _, l := range libraries {
		t.Run(l.name, func(t *testing.T) {
			play := func(addr string) (results []string) {
				s := start(t, l, addr)
				for _, command := range scenario {
					result, _ := s.do(t, command)
					require.NotEqual(t, hung, result, "at %q", command)
					results = append(results, strings.ReplaceAll(result, addr, "ADDRESS"))
				}
				return results
			}
			control := play(mctest.StartNewMemcached(t).Addr())
			for name, replicas := range map[string]int{"all copies": 0, "one copy": 1} {
				m := mwtest.Start(t, middleware.Options{
					Servers:   mwtest.Servers(mctest.StartNewMemcacheds(t, 3)...),
					Placement: route.Options{Replicas: replicas},
				})
				got := play(m.Addr())
				for i, command := range scenario {
					if reason := l.exceptions[command]; reason != "" {
						t.Logf("%s: not compared: %s: memcached %q, mcmw %q", command, reason, control[i], got[i])
						continue
					}
					assert.Equal(t, control[i], got[i], "%s, %q", name, command)
				}
			}
		})
	}
}

func TestLibrariesThatSpeakBinaryAreToldSo(t *testing.T) {
	m := mwtest.Start(t, middleware.Options{Servers: mwtest.Servers(mctest.StartMemcached(t))})
	for _, l := range binaries {
		t.Run(l.name, func(t *testing.T) {
			result, _ := start(t, l, m.Addr()).await(t, "get k", 4*patience) // Rust's tries for half a minute
			require.Regexp(t, "^error|CONNECTION FAILURE", result)
		})
	}
}
