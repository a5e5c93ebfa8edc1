package paper

// Levels are levels of factors.
type Levels map[string]string

// Beside is a table of a report beside what its repeated experiments measured.
type Beside struct {
	Name, Title string
	Notes       []string
	// Kind is what the table is filled with: its cells (""), the effects of a 2^3 design (variation), arrival rates (rates), or errors of the
	// interactive law (law).
	Kind string
	// Record is the name of the experiment, Printed that of the report's table; for cells, each cell has its own.
	Record, Printed string

	// of cells: the columns, a row for each mapping, and what the row's cells are. Texts may have the mapping's keys in braces.
	Columns []string
	For     []map[string]string
	Label   string
	At      Levels
	Cells   []Cell

	// of rates and laws: the workers and clients of the rows; Reads is the experiment of reads, whose columns are the first ReadsClients clients.
	Workers, Clients []string
	Reads            string
	ReadsClients     int `yaml:"reads_clients"`
	// Figure draws rates over the clients.
	Figure *struct{ Title, Caption string }
}

// Cell is a number that the report prints, and the same measured here.
type Cell struct {
	Printed string // TABLE/ROW/COLUMN/DECIMALS
	Text    string // the name of a number of the report's text, instead
	Of      string // SOURCE.METRIC, or SOURCE.NAME with a name of derived
	At      Levels // levels beside those of the table
	// OrHighest are the levels of which the highest value stands in brackets where there is none at the others.
	OrHighest       Levels `yaml:"or_highest"`
	Times, Decimals string
}
