package plan_test

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest/model"
	"mcmw/internal/mctest/strict"
	"mcmw/internal/plan"
	"mcmw/internal/protocol"
	"mcmw/internal/replica"
	"mcmw/internal/route"
)

var update = flag.Bool("update", false, "write the tables of answers and trips into docs/replication.md")

const replicationPage = "../../docs/replication.md"

// answerTable returns what the clients of three replicas are answered: a row for each request and the answers of the
// key's first, second and third server, in this order. "" is no answer. The answers arrive in this order.
func answerTable(t *testing.T) string {
	var table strings.Builder
	table.WriteString("| request | its 1st, 2nd and 3rd server answer | ack all | ack live | ack quorum | ack any " +
		"|\n|---|---|---|---|---|---|\n")
	for _, row := range []struct {
		command string
		replies [3]string
	}{
		{"set k 0 0 1\r\nx\r\n", [3]string{"STORED", "STORED", ""}},
		{"set k 0 0 1\r\nx\r\n", [3]string{"STORED", "", ""}},
		{"set k 0 0 1\r\nx\r\n", [3]string{"STORED", "STORED", "SERVER_ERROR out of memory storing object"}},
		{"add k 0 0 1\r\nx\r\n", [3]string{"STORED", "NOT_STORED", "NOT_STORED"}},
		{"incr k 1\r\n", [3]string{"6", "6", "NOT_FOUND"}},
		{"delete k\r\n", [3]string{"NOT_FOUND", "NOT_FOUND", ""}},
		{"flush_all\r\n", [3]string{"OK", "OK", ""}},
	} {
		fmt.Fprintf(&table, "| `%s` |", strings.Fields(row.command)[0])
		var cells []string
		for ack := range replica.AckAny + 1 {
			replies, cell := answered(t, ack, row.command, row.replies)
			if ack == 0 {
				table.WriteString(" " + strings.Join(replies, ", ") + " |")
			}
			cells = append(cells, cell)
		}
		table.WriteString(" " + strings.Join(cells, " | ") + " |\n")
	}
	return table.String()
}

// answered serves command with the answers of three servers. It returns the answers of the servers that were asked, and
// the result.
func answered(t *testing.T, ack replica.Ack, command string, replies [3]string) (gave []string, cell string) {
	d := newDriver(t, 3, ack, route.ReadDefault)
	holders := d.router.Replicas([]byte("k"), nil)
	ordinals := [3]string{"1st", "2nd", "3rd"}
	d.Start(command)
	asked := [3]bool{}
	var deleted []string
	for !d.done {
		for h, server := range holders {
			out := d.Out(server)
			switch {
			case out == "":
			case asked[h]: // its answer differed
				require.Equal(t, "delete k\r\n", out)
				deleted = append(deleted, ordinals[h])
				d.Reply(server, "DELETED\r\n")
			case replies[h] == "":
				asked[h] = true
				d.Lost(server)
			default:
				asked[h] = true
				d.Reply(server, replies[h]+"\r\n")
			}
		}
	}
	for h, reply := range replies {
		switch {
		case !asked[h]:
			gave = append(gave, "is not asked")
		case reply == "":
			gave = append(gave, "nothing")
		default:
			gave = append(gave, "`"+reply+"`")
		}
	}
	cell = "`" + strings.TrimSuffix(d.answer.String(), "\r\n") + "`"
	for h, server := range holders {
		cell = strings.ReplaceAll(cell, fmt.Sprintf("server-%d: lost", server+1), "("+ordinals[h]+")")
	}
	switch len(deleted) {
	case 0:
	case 3:
		cell += "; deleted everywhere"
	default:
		cell += "; deleted on the " + strings.Join(deleted, " and ")
	}
	return gave, cell
}

// tripsTable returns what three servers that hold the key are sent with several writers: a row for each request, a
// column for each trip.
func tripsTable(t *testing.T) string {
	var table strings.Builder
	table.WriteString("| request | first trip | second | third | then the answer, and |\n|---|---|---|---|---|\n")
	for _, command := range []string{
		"set k 5 60 1\r\nx\r\n", "delete k\r\n", "add k 0 0 1\r\nx\r\n",
		fmt.Sprintf("cas k 0 0 1 %d\r\nx\r\n", initialVersion), "append k 0 0 1\r\nx\r\n",
		"incr n 1\r\n", "md k I\r\n", "mg o N30 v\r\n",
	} {
		d := drive(t, newRouter(t, 3, route.ReadPrimary), replica.AckAll, plan.NewVersions(0, 1))
		var servers [3]model.Server
		for s := range servers {
			servers[s].Put("k", model.Item{Value: "5", CAS: initialVersion})
			servers[s].Put("n", model.Item{Value: "9", CAS: initialVersion})
		}
		d.Start(command)
		holders := d.router.Replicas(d.request.Keys, nil)
		cells := []string{"", "", ""}
		for trip := 0; !d.done; trip++ {
			cells[trip] = tripOf(t, d, holders, servers[:])
		}
		then := ""
		if !d.idle {
			then = tripOf(t, d, holders, servers[:])
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s |\n", strings.SplitN(command, "\r\n", 2)[0],
			strings.Join(cells, " | "), then)
	}
	return strings.NewReplacer(fmt.Sprint(initialVersion+1), "V", fmt.Sprint(initialVersion+2), "W",
		fmt.Sprint(initialVersion), "T").Replace(table.String())
}

// tripOf serves what d sends, and describes it.
func tripOf(t *testing.T, d *driver, holders []int, servers []model.Server) string {
	asked := make([]string, len(holders))
	for h, s := range holders {
		var lines, replies []string
		for r := bufio.NewReader(strings.NewReader(d.Out(s))); ; {
			q, err := strict.Read(r)
			if err == io.EOF {
				break
			}
			require.NoError(t, err)
			lines = append(lines, "`"+q.Line+"`")
			replies = append(replies, servers[s].Do(&q))
		}
		asked[h] = strings.Join(lines, ", ")
		defer d.Reply(s, strings.Join(replies, ""))
	}
	switch {
	case asked[0] == asked[1]:
		return asked[0]
	case asked[1] == "":
		return "1st: " + asked[0]
	case asked[0] == "":
		return "others: " + asked[1]
	}
	return "1st: " + asked[0] + "; others: " + asked[1]
}

func TestTheTablesOfAnswersAreWhatThePlannerDoes(t *testing.T) {
	page, err := os.ReadFile(replicationPage)
	require.NoError(t, err)
	for mark, makeTable := range map[string]func(t *testing.T) string{"answers": answerTable, "trips": tripsTable} {
		begin := "<!-- " + mark + " -->\n"
		before, rest, found := strings.Cut(string(page), begin)
		require.True(t, found, mark)
		table, after, found := strings.Cut(rest, "<!-- end -->")
		require.True(t, found)
		want := makeTable(t)
		if *update {
			page = []byte(before + begin + want + "<!-- end -->" + after)
			continue
		}
		assert.Equal(t, want, table, "to update the tables, run go test ./internal/plan -run Tables -update")
	}
	if *update {
		require.NoError(t, os.WriteFile(replicationPage, page, 0o644))
	}
}

// fuzzedCommands are commands that each take different steps.
var fuzzedCommands = append([]string{
	"get k\r\n", "get k l m n\r\n", "gets k l\r\n", "gats 7 k l m\r\n", "touch k 0\r\n", "prepend k 0 0 1\r\nx\r\n",
	"flush_all\r\n", "flush_all 0 noreply\r\n",
	"version\r\n", "verbosity 1\r\n", "stats\r\n", "stats items\r\n", "mn\r\n", "mg k v t c\r\n", "mg k v q\r\n",
	"mg k N30 v\r\n", "me k\r\n", "md k I T30\r\n", "md aw== b\r\n",
	"ms k 1 MA\r\nx\r\n", "ms k 1 I C5\r\nx\r\n", "ma k MD D2 q\r\n", "set k 0 0 1 noreply\r\nx\r\n",
	"slabs automove 0\r\n",
}, exploredCommands...)

// fuzzedReplies are replies of servers, and bytes that are no reply; "" loses the connection.
var fuzzedReplies = []string{
	"STORED\r\n", "NOT_STORED\r\n", "EXISTS\r\n", "NOT_FOUND\r\n", "DELETED\r\n", "TOUCHED\r\n", "OK\r\n", "5\r\n",
	"6\r\n", "END\r\n", "HD\r\n", "NF\r\n", "NS\r\n", "EX\r\n", "EN\r\n",
	"MN\r\n", "VA 1\r\nx\r\n", "VA 1 t-1 c5\r\nx\r\n", "HD c7\r\n", "VALUE k 0 1\r\nx\r\nEND\r\n",
	"VALUE l 0 1\r\nx\r\n", "VALUE k 0 1 9\r\nx\r\nEND\r\n", "STAT a b\r\nEND\r\n", "VERSION 1\r\n",
	"ERROR\r\n", "CLIENT_ERROR no\r\n", "SERVER_ERROR no\r\n", "ME k cls=1\r\n", "nonsense\r\n", "",
}

func FuzzAnyRepliesInAnyOrderEndInAnAnswer(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(seed, uint8(seed), uint8(1+seed%4), uint8(seed))
		f.Add(seed, uint8(seed), uint8(1+seed%4), uint8(12+seed))
	}
	f.Fuzz(func(t *testing.T, seed uint64, command, servers, mode uint8) {
		r := rand.New(rand.NewPCG(seed, 1))
		policies := []route.ReadPolicy{route.ReadDefault, route.ReadPrimary, route.ReadRoundRobin, route.ReadLeastBusy}
		var versions *plan.Versions
		if mode/12%2 == 1 {
			versions = plan.NewVersions(seed, 1)
		}
		d := drive(t, newRouter(t, 1+int(servers)%4, policies[mode/3%4]), replica.Ack(mode%3), versions)
		d.lies = true
		for range 3 {
			for s := range d.planner.Servers {
				d.planner.Servers[s].Readable = r.IntN(4) > 0
				d.planner.Servers[s].Suspect = r.IntN(4) == 0
			}
			d.Start(fuzzedCommands[(int(command)+r.IntN(3))%len(fuzzedCommands)])
			for steps := 0; !d.idle; steps++ {
				require.Less(t, steps, 1000, "%q", d.told)
				server := r.IntN(len(d.out))
				d.Out(server)
				if len(d.waiting[server]) == 0 {
					continue
				}
				if reply := fuzzedReplies[r.IntN(len(fuzzedReplies))]; reply != "" {
					d.Reply(server, reply)
				} else {
					d.Lost(server)
				}
			}
			answer, _ := d.Answer()
			assert.True(t, answer == "" || strings.HasSuffix(answer, "\r\n"), "%q is answered with %q", d.request.Raw,
				answer)
			assert.Equal(t, answer == "", !answerDue(d), "%q is answered with %q after %q", d.request.Raw, answer,
				d.told)
		}
	})
}

// answerDue reports whether the client must get an answer. For a quiet command this depends on what the answer is.
func answerDue(d *driver) bool {
	answer, _ := d.Answer()
	return answer != "" || d.request.Replies() && !d.request.Has(protocol.Quiet) && d.request.Command != protocol.Stats
}
