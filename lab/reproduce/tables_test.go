package reproduce

import (
	"io/fs"
	"testing"

	"github.com/stretchr/testify/require"

	"mcmw/lab/experiments"
	"mcmw/lab/paper"
)

func TestEveryTableOfCellsHasPrintedNumbers(t *testing.T) {
	files, err := fs.Glob(experiments.Reports, "reports/*.yaml")
	require.NoError(t, err)
	for _, file := range files {
		name := file[len("reports/") : len(file)-len(".yaml")]
		require.Contains(t, paper.Names, name)
		s, err := Open(t.Context(), name, nil)
		require.NoError(t, err)
		tables, err := s.tables()
		require.NoError(t, err, name)
		require.Empty(t, tables, "there are no measurements")
		for _, spec := range s.Report.Beside {
			if spec.Kind != "" {
				continue
			}
			rows, err := s.cells(spec)
			require.NoError(t, err)
			for i, row := range rows {
				require.NotContains(t, row[0], "{", "every name in braces has a value")
				printed := 0
				for j := 1; j < len(row); j += 2 {
					if row[j] != none {
						printed++
					}
				}
				require.Positivef(t, printed, "%s %s: row %d has no printed number", name, spec.Name, i)
			}
		}
	}
}

func TestBrokenTablesAreRefused(t *testing.T) {
	s := &Source{Report: &paper.Report{Beside: []paper.Beside{{Name: "a", Kind: "pie"}}}}
	_, err := s.tables()
	require.ErrorContains(t, err, `table a: kind "pie": expected variation, rates, law, or none for cells`)
	s.Report.Beside = []paper.Beside{{Name: "a", Columns: []string{"", "b"}, For: []map[string]string{{}}, Cells: []paper.Cell{{Printed: "1/2"}}}}
	_, err = s.tables()
	require.ErrorContains(t, err, `printed "1/2": expected TABLE/ROW/COLUMN/DECIMALS`)
}
