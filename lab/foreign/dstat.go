package foreign

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// HostSample has the values of a second of dstat by group and column, such as "cpu usr" and "net recv". Shares of the
// processor are from 0 to 1, other values are in bytes per second or counts.
type HostSample map[string]float64

// groups are the names of groups of columns. dstat's headers begin with them, except that of all processors,
// "total-cpu" or "total cpu". Groups of single processors, such as "cpu0-usage", keep their headers as names.
var groups = []string{"cpu", "dsk", "net", "paging", "system", "memory", "swap", "load", "io", "procs", "epoch", "time"}

// groupOf returns the name of a group of columns from its header; an unknown header is its own name.
func groupOf(head string) string {
	head = strings.Trim(strings.TrimSpace(head), "-")
	for _, group := range groups {
		rest, total := strings.CutPrefix(head, "total")
		if strings.HasPrefix(strings.TrimLeft(rest, "- "), group) && (total || group != "cpu") {
			return group
		}
	}
	return head
}

// ParseDstat reads the output of dstat, or the CSV that it writes with --output. It leaves out the first sample, which
// is an average since the machine started.
func ParseDstat(r io.Reader) ([]HostSample, error) {
	buffered := bufio.NewReader(r)
	if first, _ := buffered.Peek(1); len(first) == 1 && first[0] == '"' {
		return parseDstatCSV(buffered)
	}
	lines := bufio.NewScanner(buffered)
	var heads []string
	var columns [][]string // by group
	var samples []HostSample
	for number := 1; lines.Scan(); number++ {
		line := withoutEscapes(lines.Text())
		parts := strings.FieldsFunc(line,
			func(r rune) bool { return r == '|' || r == ':' && strings.Contains(line, "usr:") })
		switch {
		case strings.TrimSpace(line) == "":
		case strings.HasPrefix(strings.TrimSpace(line), "---") || strings.HasPrefix(strings.TrimSpace(line), "dsk/"):
			// A header: groups are separated by spaces.
			heads, columns = strings.Fields(strings.TrimSpace(line)), nil
		case heads != nil && columns == nil:
			for _, part := range parts {
				columns = append(columns, strings.Fields(part))
			}
			if len(columns) != len(heads) {
				return nil, fmt.Errorf("line %d: %d groups of columns: expected %d, as in the line above", number,
					len(columns), len(heads))
			}
		case columns != nil:
			sample, err := dstatSample(heads, columns, parts)
			if err != nil {
				return nil, fmt.Errorf("line %d: %w", number, err)
			}
			samples = append(samples, sample)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	return withoutFirst(samples)
}

func withoutFirst(samples []HostSample) ([]HostSample, error) {
	if len(samples) < 2 {
		return nil,
			errors.New("no sample of dstat found: expected a header such as ----total-cpu-usage----, a line with the " +
				"names of columns, and lines of values")
	}
	return samples[1:], nil
}

// escape matches control sequences of terminals.
var escape = regexp.MustCompile(`\x1b(\[[^\x40-\x7e]*[\x40-\x7e]?|[^\[]|$)`)

// withoutEscapes returns a line without control sequences of terminals.
func withoutEscapes(line string) string { return escape.ReplaceAllString(line, "") }

// dstatSample reads a line of values.
func dstatSample(heads []string, columns [][]string, parts []string) (HostSample, error) {
	sample := HostSample{}
	if len(parts) != len(columns) {
		return sample, fmt.Errorf("%d groups of values: expected %d", len(parts), len(columns))
	}
	for i, part := range parts {
		values := strings.Fields(part)
		if len(values) != len(columns[i]) {
			return sample, fmt.Errorf("%d values of %s: expected %d", len(values), heads[i], len(columns[i]))
		}
		for j, text := range values {
			value, err := dstatNumber(text)
			if err != nil {
				return sample, err
			}
			sample.set(groupOf(heads[i]), columns[i][j], value)
		}
	}
	return sample, nil
}

// set sets a value. It converts percentages of the processor to ratios.
func (s HostSample) set(group, column string, value float64) {
	if group == "cpu" {
		value /= 100
	}
	s[group+" "+column] = value
}

// dstatNumber reads "12", "8192B", "13M" or "-".
func dstatNumber(text string) (float64, error) {
	if text == "-" {
		return math.NaN(), nil
	}
	scale := 1.0
	for suffix, factor := range map[string]float64{"B": 1, "k": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40} {
		if digits, ok := strings.CutSuffix(text, suffix); ok {
			text, scale = digits, factor
			break
		}
	}
	value, err := strconv.ParseFloat(text, 64)
	if err != nil || !(value >= 0) || math.IsInf(value, 0) {
		return 0, fmt.Errorf("%q: expected a number with B, k, M, G or T, or -", text)
	}
	return value * scale, nil
}

// parseDstatCSV reads dstat's CSV: some lines about dstat, a line of groups, a line of columns, then lines of values
// without units.
func parseDstatCSV(r io.Reader) ([]HostSample, error) {
	reader := csv.NewReader(r)
	reader.FieldsPerRecord = -1
	lines, err := reader.ReadAll()
	if err != nil {
		return nil, err
	}
	var heads, columns []string
	var samples []HostSample
	for number, line := range lines {
		switch {
		case len(line) == 0:
		case strings.HasPrefix(line[0], "total cpu") || strings.HasPrefix(line[0], "total usage") ||
			strings.HasPrefix(line[0], "epoch") || strings.HasPrefix(line[0], "system") && number < 10 &&
			columns == nil:
			heads, columns = nil, nil
			group := ""
			for _, head := range line {
				if head != "" {
					group = groupOf(head)
				}
				heads = append(heads, group)
			}
		case heads != nil && columns == nil:
			if len(line) > len(heads) {
				return nil, fmt.Errorf("line %d: %d columns: expected at most %d, as in the line above", number+1,
					len(line), len(heads))
			}
			columns = line
		case columns != nil:
			sample := HostSample{}
			if len(line) != len(columns) {
				return nil, fmt.Errorf("line %d: %d values: expected %d", number+1, len(line), len(columns))
			}
			for i, text := range line {
				value, err := strconv.ParseFloat(text, 64)
				if heads[i] == "time" {
					continue
				}
				if err != nil || !(value >= 0) || math.IsInf(value, 0) {
					return nil, fmt.Errorf("line %d: %s %s is %q: expected a number from 0", number+1, heads[i],
						columns[i], text)
				}
				sample.set(heads[i], columns[i], value)
			}
			samples = append(samples, sample)
		}
	}
	return withoutFirst(samples)
}
