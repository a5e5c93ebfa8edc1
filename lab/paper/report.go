package paper

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"mcmw/lab/condition"
	"mcmw/lab/experiments"
	"mcmw/lab/record"
)

// Names are the names of the reports: their authors.
var Names = names()

func names() (all []string) {
	files, err := fs.Glob(experiments.Reports, "reports/*.yaml")
	if err != nil {
		panic(err) // the directory is embedded in the program
	}
	for _, f := range files {
		all = append(all, strings.TrimSuffix(strings.TrimPrefix(f, "reports/"), ".yaml"))
	}
	return all
}

// Report is a published report.
type Report struct {
	Name   string `yaml:"-"`
	Title  string
	Author string
	Where  string // place and year of publication
	// Travel is the one-way delay of packets in all suites of the report; "": not given.
	Travel string
	Claims []Claim `yaml:"findings"`
	Tables []Table

	travel float64 // Travel, seconds
}

// Table is a table of the report whose numbers are measured here, too.
type Table struct {
	Name, Title string
	Rows        string // what a row's name has
	Notes       []string
	// OrHighest: if the clients of a cell were not measured, the highest value with any number of them is shown in
	// brackets.
	OrHighest bool    `yaml:"or_highest"`
	Figure    *Figure // draws a column
	Cells     []Cell  `yaml:"-"`
}

// Figure draws a column of a table whose rows are named "WORKERS, CLIENTS" over the clients, with a panel for each
// number of workers.
type Figure struct{ Title, Caption, Column string }

// Cell is a printed number and what measures it here.
type Cell struct {
	Row, Column string
	Printed     string // "": the report has none
	Here        condition.Term
	Times       float64 // converts the measured value to the column's unit
	Decimals    int     // of the measured value
}

// terms are what can be measured for a table. N are the clients, X is the throughput and R the response time of the
// metric's source.
var terms = condition.Scope{Source: record.SourceClient, Runs: true, Functions: map[string]string{
	"":                "",            // a mean
	"miss_rate":       "metric",      // misses in the keys that were asked for
	"derived":         "metric",      // N/(R + Z), Z the round-trip time of the path without load
	"predicted":       "metric",      // N/X
	"predicted_error": "metric",      // of N/X, relative to R
	"law_difference":  "metric",      // R - N/X with the clients' R, the mean over the repetitions
	"ratio":           "metric runs", // of means
	"effect":          "metric part", // of a factor or an interaction of S, M and W
	"share":           "metric part", // of the variation
}}

// Parse reads the report of a name from the text of a file.
func Parse(name, file string, text []byte) (*Report, error) {
	r := &Report{Name: name}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	err := decoder.Decode(r)
	if err == nil {
		err = r.check()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return r, nil
}

// check checks the findings.
func (r *Report) check() error {
	travel, err := time.ParseDuration(cmp.Or(r.Travel, "0s"))
	if err != nil || travel < 0 {
		return fmt.Errorf("travel %q: expected a duration such as 0.5ms", r.Travel)
	}
	r.travel = travel.Seconds()
	for i, c := range r.Claims {
		switch {
		case c.Section == "" || c.Text == "" || len(c.Holds) == 0:
			return fmt.Errorf("finding %d, %q: expected section, text and holds, the conditions", i+1, c.Text)
		case c.Construction != "" && c.Cause != nil:
			return fmt.Errorf("finding %d, %q: expected construction or cause, because a finding that follows from "+
				"the testbed has no other cause", i+1, c.Text)
		}
	}
	return nil
}

// Load reads the report with a name. claims is the path of a file of the same form that has its findings; "": those of
// the report itself.
func Load(name, claims string) (*Report, error) {
	if !slices.Contains(Names, name) {
		return nil, fmt.Errorf("report %q: expected one of %s", name, strings.Join(Names, ", "))
	}
	text, err := experiments.Reports.ReadFile("reports/" + name + ".yaml")
	if err != nil {
		return nil, err
	}
	r, err := Parse(name, "report "+name, text)
	if err != nil {
		return nil, err
	}
	if claims != "" {
		if text, err = os.ReadFile(claims); err != nil {
			return nil, err
		}
		given, err := Parse(name, claims, text)
		if err != nil {
			return nil, err
		}
		if len(given.Claims) == 0 {
			return nil, fmt.Errorf("%s: no findings; expected the key findings with a list of them, each with "+
				"section, text and holds", claims)
		}
		r.travel, r.Claims = given.travel, given.Claims
	}
	if len(r.Tables) == 0 {
		return r, nil
	}
	if text, err = experiments.Reports.ReadFile("reports/" + name + ".csv"); err != nil {
		return nil, err
	}
	if err := r.read(text); err != nil {
		return nil, fmt.Errorf("report %s: %w", name, err)
	}
	return r, nil
}

// read reads the cells of the report's tables.
func (r *Report) read(text []byte) error {
	lines, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	if err != nil {
		return err
	}
	for number, line := range lines {
		if number == 0 {
			if got, want := strings.Join(line, ","), "table,row,column,printed,here,times,decimals"; got != want {
				return fmt.Errorf("line 1: %s: expected %s", got, want)
			}
			continue
		}
		c := Cell{Row: line[1], Column: line[2], Printed: line[3], Times: 1}
		c.Here, err = condition.ParseTerm(line[4], terms)
		if err == nil && len(c.Here.Runs) == 0 {
			err = fmt.Errorf("%q: expected the runs of an experiment in brackets after the metric", line[4])
		}
		if line[5] != "" && err == nil {
			c.Times, err = strconv.ParseFloat(line[5], 64)
		}
		if err == nil {
			c.Decimals, err = strconv.Atoi(line[6])
		}
		at := slices.IndexFunc(r.Tables, func(t Table) bool { return t.Name == line[0] })
		if at < 0 && err == nil {
			err = errors.New("the file has no such table")
		}
		if err != nil {
			return fmt.Errorf("line %d, table %s: %w", number+1, line[0], err)
		}
		r.Tables[at].Cells = append(r.Tables[at].Cells, c)
	}
	return nil
}
