package paper

// Levels are levels of factors, by factor.
type Levels map[string]string

// Beside is a table that compares printed numbers with those of repeated experiments.
type Beside struct {
	Name, Title string
	Notes       []string
	// Kind is the content of the table: Cells (""), the effects of a 2^3 design ("variation"), arrival rates ("rates"), or errors of the
	// interactive law ("law").
	Kind            string
	Record, Printed string // the experiment and the printed table; each cell of Cells has its own

	// For Kind "": the names of the columns, and the cells of each row. There is a row for each mapping of For, whose keys in braces are
	// replaced in all texts of the row.
	Columns []string
	For     []map[string]string
	Label   string
	At      Levels
	Cells   []Cell

	// For rates and law: the workers and clients of the rows. Reads is the experiment of reads, which the report prints for the first
	// ReadsClients of the clients.
	Workers, Clients []string
	Reads            string
	ReadsClients     int                              `yaml:"reads_clients"`
	Figure           *struct{ Title, Caption string } // draws rates over the clients
}

// Cell is a printed number and the same number measured here.
type Cell struct {
	Printed         string // TABLE/ROW/COLUMN/DECIMALS
	Text            string // instead of Printed: the name of a number in the report's text
	Of              string // SOURCE.METRIC; the metric may be one that package reproduce derives
	At              Levels // in addition to those of the table
	OrHighest       Levels `yaml:"or_highest"` // if there is no value, the highest value at these levels is shown in brackets
	Times, Decimals string // factor and number of decimals of the measured value
}
