package record

import (
	"database/sql"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func readPage(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/record.md")
	require.NoError(t, err)
	return string(page)
}

func TestTheDocumentationHasEveryTableAndColumn(t *testing.T) {
	r := newRecord(t)
	_, tables, _ := strings.Cut(readPage(t), "## The tables")
	tables, _, _ = strings.Cut(tables, "Sources are")
	described := map[string]string{}
	table := ""
	for line := range strings.Lines(tables) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 {
			continue
		}
		if name := strings.Trim(cells[1], " `"); name != "" {
			table = name
		}
		described[table] += cells[2]
	}
	for _, name := range Tables {
		rows, err := r.db.Query("SELECT name FROM pragma_table_info(?)", name)
		require.NoError(t, err)
		columns := 0
		for rows.Next() {
			var column string
			require.NoError(t, rows.Scan(&column))
			require.Contains(t, described[name], "`"+column+"`", "table %s", name)
			columns++
		}
		require.NoError(t, rows.Err())
		require.Equal(t, columns, strings.Count(described[name], "`")/2, "table %s", name)
	}
	var n int
	require.NoError(t, r.db.QueryRow("SELECT count(*) FROM sqlite_schema WHERE type = 'table'").Scan(&n))
	require.Len(t, Tables, n)
}

func TestTheQueriesOfTheDocumentationWork(t *testing.T) {
	r := newRecord(t)
	run := wholeRun()
	run.Factors["clients"] = "96"
	run.Results = append(run.Results, Value{SourceClient, "response_time_mean", 0.005},
		Value{SourceMiddleware, "stage_queue_mean", 0.004})
	require.NoError(t, r.Add(run))
	want := []string{"64 96 1 12345.678901234567 5", "7 stage_queue_mean 4000"}
	queries := regexp.MustCompile("(?s)```sql\n(.*?)```").FindAllStringSubmatch(readPage(t), -1)
	require.Len(t, queries, len(want))
	for i, query := range queries {
		rows, err := r.db.Query(query[1])
		require.NoError(t, err, query[1])
		require.Equal(t, []string{want[i]}, texts(t, rows), query[1])
	}
}

// texts returns each row as its values separated by spaces.
func texts(t *testing.T, rows *sql.Rows) []string {
	t.Helper()
	defer rows.Close()
	columns, err := rows.Columns()
	require.NoError(t, err)
	var all []string
	for rows.Next() {
		values := make([]any, len(columns))
		words := make([]string, len(columns))
		for i := range values {
			values[i] = &words[i]
		}
		require.NoError(t, rows.Scan(values...))
		all = append(all, strings.Join(words, " "))
	}
	require.NoError(t, rows.Err())
	return all
}
