package behaviour_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/mctest/model"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/mctest/strict"
	"mcmw/internal/middleware"
	"mcmw/internal/route"
)

// noting is a server that answers like the model of memcached, and records the requests of the middleware.
type noting struct {
	mu    sync.Mutex // guards what follows
	model model.Server
	asked []string
}

// startNoting starts a noting server, and returns it with its address.
func startNoting(t *testing.T) (s *noting, addr string) {
	s = &noting{}
	return s, mctest.StartScript(t, func(p *mctest.Peer) {
		for {
			q, err := strict.Read(p.Reader())
			if q.Line == "" { // the middleware has closed the connection
				return
			}
			p.Send(s.reply(&q, err))
		}
	}).Addr()
}

func (s *noting) reply(q *strict.Request, err error) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil: // such as the crawler's commands
		return "ERROR\r\n"
	case q.Name() == "stats":
		return "END\r\n"
	case len(q.Keys) > 0 && !strings.HasPrefix(q.Keys[0], "mcmw "):
		s.asked = append(s.asked, "`"+q.Line+"`")
	}
	return s.model.Do(q)
}

// begin forgets the requests, and stores the items that the table's requests find.
func (s *noting) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = nil
	s.model.Evict("o")
	s.model.Put("k", model.Item{Value: "5", CAS: 1 << 62})
	s.model.Put("n", model.Item{Value: "9", CAS: 1 << 62})
}

// told returns the requests since begin.
func (s *noting) told() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

// tripsIn returns the rows of the table of trips in page, each with its cells.
func tripsIn(t *testing.T, page string) (rows [][]string) {
	_, rest, found := strings.Cut(page, "<!-- trips -->\n")
	require.True(t, found)
	table, _, _ := strings.Cut(rest, "<!-- end -->")
	for _, line := range strings.Split(strings.TrimSpace(table), "\n")[2:] {
		var cells []string
		for _, cell := range strings.Split(strings.Trim(line, "|"), "|") {
			cells = append(cells, strings.TrimSpace(cell))
		}
		rows = append(rows, cells)
	}
	return rows
}

// casFlag matches a flag with a version, or with a cas that a server chose.
var casFlag = regexp.MustCompile(`\b([EC])(\d+)\b`)

// named returns the lines with versions replaced: the version known by T, the others by V and W in their order, and a
// server's own cas by 2.
func named(lines []string, known string) string {
	names := map[string]string{known: "T"}
	return casFlag.ReplaceAllStringFunc(strings.Join(lines, ", "), func(flag string) string {
		version := flag[1:]
		if len(version) < len(known) {
			return flag[:1] + "2"
		}
		if names[version] == "" {
			names[version] = [...]string{"V", "W", "X"}[len(names)-1]
		}
		return flag[:1] + names[version]
	})
}

// askedOf returns the requests of row to the h-th of a key's servers. Only the first server sees the version before W.
func askedOf(row []string, h int) string {
	var lines []string
	for _, cell := range row[1:] {
		who, some, only := strings.Cut(cell, ": ")
		switch {
		case cell == "":
		case !only:
			lines = append(lines, cell)
		case (who == "1st") == (h == 0):
			lines = append(lines, some)
		}
	}
	text := strings.Join(lines, ", ")
	if h > 0 {
		text = strings.ReplaceAll(text, "EW", "EV")
	}
	return text
}

func TestServersReceiveTheRequestsInTheTableOfTrips(t *testing.T) {
	page, err := os.ReadFile("../../docs/replication.md")
	require.NoError(t, err)
	var servers []*noting
	var addrs []string
	for range 3 {
		s, addr := startNoting(t)
		servers, addrs = append(servers, s), append(addrs, addr)
	}
	o := middleware.Options{Servers: mwtest.Named(addrs...), Writers: middleware.WritersSeveral}
	c := mwtest.Start(t, o).Dial(t)
	router, err := route.New(o.Servers, route.Options{})
	require.NoError(t, err)
	const known = "4611686018427387904"
	for _, row := range tripsIn(t, string(page)) {
		for _, s := range servers {
			s.begin()
		}
		command := strings.ReplaceAll(strings.Trim(row[0], "`"), " T", " "+known)
		if words := strings.Fields(command); len(words) > 4 {
			command += "\r\nx"
		}
		c.MustDo(t, command+"\r\n")
		holders := router.Replicas([]byte(strings.Fields(command)[1]), nil)
		require.EventuallyWithT(t, func(t *assert.CollectT) { // the client's answer does not wait for the check
			for h, s := range holders {
				assert.Equal(t, askedOf(row, h), named(servers[s].told(), known), "%s: server %d of the key's",
					row[0], h+1)
			}
		}, mctest.Patience, pollPause)
	}
}
