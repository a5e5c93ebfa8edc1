package docs

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/backend"
	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
	"mcmw/internal/replica"
	"mcmw/internal/route"
	"mcmw/internal/worker"
)

// Replies that the table abbreviates.
const (
	errorLine   = "SERVER_ERROR out of memory storing object" // error
	notANumber  = "CLIENT_ERROR cannot increment or decrement non-numeric value"
	clientError = "CLIENT_ERROR"
	value       = "VALUE k 0 1, x" // VALUE; END follows in a server's reply, and k is the key
)

// casesPage has the table.
const casesPage = "results/replication.md"

// situation is a row of the table: how three servers answer a request, and what the client gets.
type situation struct {
	row     string // its line in the page
	request string // as in the table, without the key
	// answers are by server: the key's first, second and third one. nothing: the server closes the connection; -: it is
	// not asked.
	answers []string
	cells   [3]string // by acknowledgement mode
}

// situations reads the rows of the table, whose third column has the answers of several servers.
func situations(t *testing.T) []situation {
	t.Helper()
	var list []situation
	for line := range strings.Lines(read(t, casesPage)) {
		columns := strings.Split(strings.ReplaceAll(strings.TrimSpace(line), "`", ""), "|")
		if len(columns) != 8 || !strings.Contains(columns[3], " · ") {
			continue
		}
		for i := range columns {
			columns[i] = strings.TrimSpace(columns[i])
		}
		s := situation{
			row: line, request: columns[1], answers: strings.Split(columns[3], " · "),
			cells: [3]string(columns[4:7]),
		}
		require.Len(t, s.answers, 3, line)
		list = append(list, s)
	}
	return list
}

// scripted is three servers that answer as the current situation says.
type scripted struct {
	key string

	mu      sync.Mutex
	request string // guarded by mu: the situation's
	// answers are guarded by mu. By server: the answer to the next request; "" once it was given.
	answers [3]string
	// repairs are guarded by mu. By server: how mcmw removed afterwards what the server must not hold.
	repairs [3]string
}

func (s *scripted) prepare(request string, answers []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.request, s.answers, s.repairs = request, [3]string(answers), [3]string{}
	for i, answer := range answers {
		if answer == "-" {
			s.answers[i] = ""
		}
	}
}

// repaired returns, by server, how it was repaired after its answer. Every server must have been asked that the
// situation has an answer of.
func (s *scripted) repaired(t *testing.T) [3]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	assert.Equal(t, [3]string{}, s.answers, "answers of servers that were not asked")
	return s.repairs
}

// next returns the answer of server i to a command line, "" for a closed connection.
func (s *scripted) next(i int, verb string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	answer, rest, _ := strings.Cut(s.answers[i], " then ")
	switch {
	case verb == "delete" && (answer == "" || s.request != verb):
		s.repairs[i] = "deleted"
		return "DELETED"
	case verb == "flush_all" && (answer == "" || s.request != verb):
		s.repairs[i] = "flushed"
		return "OK"
	}
	s.answers[i] = rest
	switch answer {
	case "nothing":
		return ""
	case "error":
		return errorLine
	case clientError:
		return notANumber
	case "VALUE":
		answer = strings.Replace(value, " k ", " "+s.key+" ", 1) + ", END"
	}
	return strings.ReplaceAll(answer, ", ", "\r\n")
}

// serve serves one connection to server i.
func (s *scripted) serve(i int, p *mctest.Peer) {
	for {
		line, ok := p.Line()
		if !ok {
			return
		}
		if p.Known(line) {
			continue
		}
		words := strings.Fields(line)
		switch words[0] {
		case "set", "add", "cas", "append", "ms":
			if _, ok := p.Line(); !ok {
				return
			}
		}
		answer := s.next(i, words[0])
		if answer == "" {
			return
		}
		p.Send(answer + "\r\n")
	}
}

// wire returns the command line for a request of the table. data: a data block follows.
func wire(t *testing.T, request, key string) (line string, data bool) {
	t.Helper()
	switch request {
	case "set", "add", "append":
		return request + " " + key + " 0 0 1", true
	case "cas":
		return "cas " + key + " 0 0 1 7", true
	case "ms":
		return "ms " + key + " 1", true
	case "ms C":
		return "ms " + key + " 1 C7", true
	case "delete", "md":
		return request + " " + key, false
	case "incr":
		return "incr " + key + " 1", false
	case "ma v":
		return "ma " + key + " v", false
	case "touch":
		return "touch " + key + " 60", false
	case "gat":
		return "gat 60 " + key, false
	case "mg T":
		return "mg " + key + " T60", false
	case "flush_all":
		return "flush_all", false
	}
	t.Fatalf("the table has the request %q, which this test does not know", request)
	return "", false
}

// failure matches the reply that mcmw makes for a server that gave none.
var failure = regexp.MustCompile(`SERVER_ERROR server-(\d): .*`)

// outcome describes what happened in the words of the table. The reply must not name a server that did answer. All
// servers on which the key was not deleted must be in the same state.
func outcome(t *testing.T, s situation, key, reply string, repaired [3]string) string {
	if match := failure.FindStringSubmatch(reply); match != nil {
		i := int(match[1][0] - '1')
		assert.Contains(t, s.answers[i], "nothing", "%s, answered %s: %q", s.request, s.answers, reply)
	}
	reply = failure.ReplaceAllString(strings.TrimSuffix(reply, "\r\n"), "no answer")
	reply = strings.NewReplacer(errorLine, "error", notANumber, clientError, "\r\n", ", ", " "+key+" ", " k ").
		Replace(reply)
	reply = strings.TrimSuffix(strings.Replace(reply, value, "VALUE", 1), ", END")
	assert.LessOrEqual(t, len(states(s, repaired)), 1, "%s, answered %s, leaves %v", s.request, s.answers,
		states(s, repaired))
	for _, repair := range []string{"deleted", "flushed"} {
		var servers []string
		for i := range repaired {
			if repaired[i] == repair {
				servers = append(servers, fmt.Sprint(i+1))
			}
		}
		if servers != nil {
			reply += "; " + repair + " on " + strings.Join(servers, ", ")
		}
	}
	return reply
}

// states returns the distinct states of the servers that were not repaired, judged by their answers.
func states(s situation, repaired [3]string) map[string]bool {
	list := map[string]bool{}
	for i, answer := range s.answers {
		switch {
		case repaired[i] != "", answer == "-":
		case s.request == "delete", s.request == "md":
			list["not there"] = true
		case s.request == "gat", s.request == "flush_all":
			// These may leave different states.
		default:
			list[answer] = true
		}
	}
	return list
}

// alternatives returns the possible outcomes in a cell.
func alternatives(cell string) []string { return strings.Split(cell, " or ") }

func TestTheTableOfReplicatedWritesIsWhatHappens(t *testing.T) {
	script := &scripted{}
	var addrs []string
	for i := range 3 {
		addrs = append(addrs, mctest.StartScript(t, func(p *mctest.Peer) { script.serve(i, p) }).Addr())
	}
	servers := mwtest.Named(addrs...)
	key := keyOnServersInOrder(t, servers)
	script.key = key
	list := situations(t)
	update := os.Getenv("MCMW_UPDATE") != ""
	requests := map[string]int{}
	for k, ack := range []replica.Ack{replica.AckAll, replica.AckQuorum, replica.AckAny} {
		m := mwtest.Start(t, middleware.Options{
			Servers: servers, RequestOptions: worker.RequestOptions{Ack: ack},
			Workers: 1, ServerOptions: backend.ServerOptions{FailureLimit: 1 << 20},
		})
		c := m.Dial(t)
		for i, s := range list {
			requests[s.request]++
			line, block := wire(t, s.request, key)
			data := "\r\n"
			if block {
				data = "\r\nx\r\n"
			}
			// The outcome depends on which server is read last, which changes from request to request.
			want := alternatives(s.cells[k])
			seen := map[string]bool{}
			for n := 0; n < 3 || (n < 100 && len(seen) < len(want)) || (update && n < 20); n++ {
				script.prepare(s.request, s.answers)
				reply := c.MustDo(t, line+data)
				m.AwaitUp(t)
				seen[outcome(t, s, key, reply, script.repaired(t))] = true
			}
			if update {
				list[i].cells[k] = strings.Join(slices.Sorted(maps.Keys(seen)), " or ")
				continue
			}
			assert.ElementsMatch(t, want, slices.Collect(maps.Keys(seen)), "%s, answered %s, ack %s", s.request,
				strings.Join(s.answers, " · "), ack)
			if silent, ok := noreply(s.request, line); ok {
				script.prepare(s.request, s.answers)
				// mcmw itself answers an unknown command, in the order of the requests.
				require.Equal(t, "ERROR\r\n", c.MustDo(t, silent+data+"nonsense\r\n"),
					"a request without reply was answered")
				m.AwaitUp(t)
				assert.Contains(t, repairsOf(want), repairsOf([]string{outcome(t, s, key, "", script.repaired(t))})[0],
					"%s, answered %s, ack %s", silent, s.answers, ack)
			}
		}
	}
	if update {
		writeCells(t, list)
	}
	for _, request := range []string{
		"set", "add", "append", "delete", "incr", "touch", "cas", "gat", "ms", "ms C",
		"md", "ma v", "mg T", "flush_all",
	} {
		assert.GreaterOrEqual(t, requests[request], 3*3, "the table has few rows of %s", request)
	}
}

// writeCells writes the outcomes of all cases into the page.
func writeCells(t *testing.T, list []situation) {
	t.Helper()
	page := read(t, casesPage)
	for _, s := range list {
		row := strings.Split(s.row, "|")[:4]
		for _, cell := range s.cells {
			outcomes := alternatives(cell)
			for i := range outcomes {
				outcomes[i] = quoted(outcomes[i])
			}
			row = append(row, " "+strings.Join(outcomes, " or ")+" ")
		}
		page = strings.Replace(page, s.row, strings.Join(row, "|")+"|\n", 1)
	}
	require.NoError(t, os.WriteFile(casesPage, []byte(page), 0o644))
}

// quoted returns an outcome with the server's own answer marked as code.
func quoted(outcome string) string {
	reply, repair, repaired := strings.Cut(outcome, "; ")
	for _, failed := range []string{"no answer", "error"} {
		if value, ok := strings.CutSuffix(reply, ", "+failed); ok {
			return "`" + value + "`, " + failed + strings.TrimPrefix(outcome, reply)
		}
		if reply == failed {
			return outcome
		}
	}
	if repaired {
		return "`" + reply + "`; " + repair
	}
	return "`" + reply + "`"
}

// noreply returns a classic command with noreply; false if the command does not have it.
func noreply(request, line string) (string, bool) {
	switch request {
	case "set", "add", "append", "cas", "delete", "incr", "touch", "flush_all":
		return line + " noreply", true
	}
	return "", false
}

// repairsOf returns the part of each outcome that is about repairs.
func repairsOf(outcomes []string) []string {
	list := make([]string, len(outcomes))
	for i, text := range outcomes {
		_, list[i], _ = strings.Cut(text, "; ")
	}
	return list
}

// keyOnServersInOrder returns a key whose replicas are the servers in their order.
func keyOnServersInOrder(t *testing.T, servers []route.Server) string {
	t.Helper()
	router, err := route.New(servers, route.Options{})
	require.NoError(t, err)
	for i := range 1000 {
		key := fmt.Sprintf("%d-key", i)
		if slices.Equal(router.Replicas([]byte(key), nil), []int{0, 1, 2}) {
			return key
		}
	}
	t.Fatal("no key has the servers as replicas in their order")
	return ""
}

// The page shows this reply: keys of the failed server are neither returned nor reported as misses.
func TestAMultiGetNamesTheServerThatFailedAsThePageShows(t *testing.T) {
	var addrs []string
	for i := range 3 {
		addrs = append(addrs, mctest.StartScript(t, func(p *mctest.Peer) {
			p.Answer(func(line string) string {
				if i == 1 {
					p.Reset()
					return ""
				}
				var b strings.Builder
				for _, key := range strings.Fields(line)[1:] {
					fmt.Fprintf(&b, "VALUE %s 0 1\r\nx\r\n", key)
				}
				return b.String() + "END\r\n"
			})
		}).Addr())
	}
	servers := mwtest.Named(addrs...)
	router, err := route.New(servers, route.Options{})
	require.NoError(t, err)
	m := mwtest.Start(t, middleware.Options{Servers: servers, Placement: route.Options{Replicas: 1}, Workers: 1})
	request := regexp.MustCompile(`\n    get (.*)\n((?:    .*\n)*)`).FindStringSubmatch(read(t, "replication.md"))
	require.NotNil(t, request, "the page shows no multi-get")
	primaries := map[int]bool{}
	for _, key := range strings.Fields(request[1]) {
		primaries[router.Primary([]byte(key))] = true
	}
	require.True(t, primaries[1] && len(primaries) > 1, "the primaries of the page's keys are %v", primaries)
	reply := m.Dial(t).MustDo(t, "get "+request[1]+"\r\n")
	assert.Equal(t, strings.ReplaceAll(request[2], "    ", ""), strings.ReplaceAll(reply, "\r\n", "\n"))
}

// With several writers only the first server keeps the stale item. mcmw's check of the store before can win it for a
// moment and gives it back, so reads go on until a client has won.
func TestAStaleItemIsWonOncePerServerThatIsReadAndByOneClientWithSeveralWriters(t *testing.T) {
	const turns, servers = 4, 3
	for _, tc := range []struct {
		writers   middleware.Writers
		read      route.ReadPolicy
		won, hits int // clients, and hits of turns times servers reads
	}{
		{middleware.WritersOne, route.ReadRoundRobin, servers, turns * servers},
		{middleware.WritersOne, route.ReadPrimary, 1, turns * servers},
		{middleware.WritersSeveral, route.ReadRoundRobin, 1, turns},
		{middleware.WritersSeveral, route.ReadPrimary, 1, turns * servers},
	} {
		t.Run(fmt.Sprintf("writers %s, read %s", tc.writers, tc.read), func(t *testing.T) {
			start := mctest.StartMemcacheds
			if tc.writers == middleware.WritersSeveral {
				start = mctest.StartNewMemcacheds
			}
			m := mwtest.Start(t, middleware.Options{
				Servers: mwtest.Servers(start(t, servers)...), Placement: route.Options{Read: tc.read}, Workers: 1,
				Writers: tc.writers,
			})
			c := m.Dial(t)
			c.MustDo(t, "ms k 1\r\nx\r\n")
			require.Equal(t, "HD\r\n", c.MustDo(t, "md k I T0\r\n"))
			won := 0
			read := func() (hits int) {
				for range turns * servers {
					reply := c.MustDo(t, "mg k s\r\n")
					if reply == "EN\r\n" {
						continue
					}
					require.Contains(t, reply, " X", "a hit is not marked as stale")
					hits++
					if strings.Contains(reply, " W") {
						won++
					}
				}
				return hits
			}
			assert.Equal(t, tc.hits, read(), "hits")
			for deadline := time.Now().Add(mctest.Patience); tc.writers == middleware.WritersSeveral && won < tc.won &&
				time.Now().Before(deadline); {
				assert.Equal(t, tc.hits, read(), "hits")
			}
			read()
			assert.Equal(t, tc.won, won, "clients that won")
		})
	}
}
