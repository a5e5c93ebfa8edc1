package behaviour_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
	"mcmw/internal/worker"
)

// referenceArgs make memcached deterministic: one thread; memory for everything that scripts store; and no thread that
// holds references to items, which would change whether incr and decr write in place.
var referenceArgs = []string{"-t", "1", "-m", "1024", "-o", "no_lru_maintainer"}

// patience is the maximum time for replies. Only scripts that leave a connection waiting take so long.
const patience = 3 * time.Second

// scriptLength is the number of steps of a generated script.
const scriptLength = 40

// runDifferential compares until a number of steps, commands, have run. It stops at the first difference and returns a
// report of it, reduced; the text is "" if there was none.
func runDifferential(t *testing.T, p *pair, seed uint64, stream, streams, commands int) (text string, minimal []step) {
	t.Helper()
	malformed := p.direct.readsStrictly(t)
	done, waiting := 0, 0
	for n := stream; done < commands; n += streams {
		steps := newGenerator(seed, n, malformed).script(scriptLength)
		d := delivery(n / streams % int(numDeliveries))
		diff, err := p.compare(steps, d, uint64(n))
		require.NoError(t, err)
		if diff != nil {
			minimal, diff, d = p.minimise(steps, diff, d, uint64(n))
			return fmt.Sprintf("script %d of seed %d: %s", n, seed, report(minimal, d, diff)), minimal
		}
		done += len(steps)
		if len(steps) > 0 && p.stalled {
			waiting++
		}
	}
	t.Logf("%d commands compared; %d scripts left a connection waiting", done, waiting)
	return "", nil
}

func directTarget(t *testing.T, args ...string) *target {
	t.Helper()
	return &target{addr: mctest.StartMemcached(t, args...).Addr(), patience: patience}
}

// firstStrict is the first release of memcached with a new parser, whose rules for malformed lines mcmw follows.
const firstStrict = 40

// readsStrictly reports whether the target is a memcached with that parser.
func (t *target) readsStrictly(tb testing.TB) bool {
	tb.Helper()
	version := mctest.MustDial(tb, t.addr).MustDo(tb, "version\r\n")
	var patch int
	_, err := fmt.Sscanf(version, "VERSION 1.6.%d", &patch)
	require.NoError(tb, err)
	return patch >= firstStrict
}

// memcacheds runs a test with the memcached in PATH and with a newer one.
func memcacheds(t *testing.T, test func(t *testing.T, start func(testing.TB, ...string) *mctest.Server)) {
	t.Run("memcached", func(t *testing.T) { test(t, mctest.StartMemcached) })
	t.Run("newer memcached", func(t *testing.T) { test(t, mctest.StartNewMemcached) })
}

func TestTheDifferentialFindsNoDifferenceBetweenTwoMemcacheds(t *testing.T) {
	seed := mctest.Seed(t)
	p := &pair{direct: directTarget(t, referenceArgs...), tcp: directTarget(t, referenceArgs...)}
	commands := 3000
	if mctest.Long() {
		commands = 20_000
	}
	text, _ := runDifferential(t, p, seed, 0, 1, commands)
	require.Empty(t, text)
}

func TestTheDifferentialReducesADifferenceToTheCommandThatShowsIt(t *testing.T) {
	// This memcached refuses flush_all.
	p := &pair{
		direct: directTarget(t, referenceArgs...),
		tcp:    directTarget(t, append([]string{"-F"}, referenceArgs...)...),
	}
	// With this seed the first script with a difference has a flush_all with a reply. One with noreply would show only
	// as a value that still exists, and need the commands that store and fetch it.
	const seed = 1
	text, minimal := runDifferential(t, p, seed, 0, 1, 10_000)
	require.Contains(t, text, "flush_all not allowed")
	require.Len(t, minimal, 1, "%s", text)
}

func TestRepliesEqualMemcachedsByteForByte(t *testing.T) { memcacheds(t, testRepliesEqual) }

func testRepliesEqual(t *testing.T, start func(testing.TB, ...string) *mctest.Server) {
	seed := mctest.Seed(t)
	commands := 2400
	if mctest.Long() {
		commands = 100_000
	}
	settings := []struct {
		name           string
		workers, depth int
		sharded        bool
	}{
		{"4 workers, depth 32", 4, 32, false},
		{"1 worker, depth 1", 1, 1, false},
		{"64 workers, depth 2, sharded", 64, 2, true},
	}
	for i, s := range settings {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			m := mwtest.Start(t, middleware.Options{
				Listen:  []string{"127.0.0.1:0", "unix:" + filepath.Join(t.TempDir(), "mcmw")},
				Servers: mwtest.Servers(start(t, referenceArgs...)), Workers: s.workers,
				RequestOptions: worker.RequestOptions{Depth: s.depth, Sharded: s.sharded},
			})
			p := &pair{
				direct: &target{addr: start(t, referenceArgs...).Addr(), patience: patience},
				tcp:    &target{addr: m.AddrOf(0), patience: patience},
				unix:   &target{addr: m.AddrOf(1), patience: patience, readsSeen: true},
			}
			text, _ := runDifferential(t, p, seed, i, len(settings), commands/len(settings)+1)
			require.Empty(t, text)
		})
	}
}

func TestARequestMayBeCutAtAnyByte(t *testing.T) { memcacheds(t, testCutAtAnyByte) }

func testCutAtAnyByte(t *testing.T, start func(testing.TB, ...string) *mctest.Server) {
	const script = "set a 5 0 6\r\nx\r\ny\r\n\r\nget a b a\r\n" +
		"set b 0 0 3 noreply\r\nnop\r\nappend b 0 0 2\r\n\r\n\r\ngets b a\r\nset bad 0 0 3\r\nvwxyzget  a " +
		"\r\nnonsense\r\n" +
		"incr a 1\r\nset n 0 0 1\n7\r\nincr n 3\ndecr n 1 noreply\r\nget n\r\ntouch n 0\r\ndelete n\r\ndelete n " +
		"noreply\r\n" +
		"cas a 0 0 1 18446744073709551615\r\nz\r\nverbosity 0\r\nmg a v f O1\r\nms a 2 c\r\nhi\r\nmn\r\ngat 0 a " +
		"b\r\nget a\r\nquit\r\n"
	direct := start(t, referenceArgs...)
	m := mwtest.Start(t, middleware.Options{
		Listen:  []string{"unix:" + filepath.Join(t.TempDir(), "mcmw")},
		Servers: mwtest.Servers(start(t, referenceArgs...)), Workers: 4,
	})
	answer := func(addr string, parts ...string) []byte {
		c := mctest.MustDial(t, addr)
		defer c.Close()
		for _, part := range parts {
			require.NoError(t, c.Send([]byte(part)))
			if len(parts) > 1 {
				require.NoError(t, mctest.AwaitRead(c.Conn, mctest.Patience))
			}
		}
		rest, err := c.Rest()
		require.NoError(t, err)
		return []byte(rest)
	}
	const clean = "delete a noreply\r\ndelete b noreply\r\ndelete n noreply\r\n"
	for at := range len(script) {
		want := answer(direct.Addr(), clean+script)
		got := answer(m.Addr(), clean+script[:at], script[at:])
		require.Empty(t, compareReplies(want, got, newCasIDs()), "cut between %q and %q", script[:at], script[at:])
	}
}
