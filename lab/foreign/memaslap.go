package foreign

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"mcmw/lab/sample"
)

// Memaslap is the report of one run of memaslap (memcaslap in newer releases of libmemcached).
type Memaslap struct {
	Threads, Connections uint64
	Seconds              float64 // length of the run
	Requests             uint64
	Throughput           float64
	SetShare             float64 // of the requests, 0 to 1; NaN if unknown
	Gets, Sets, Misses   uint64
	Written, Read        uint64 // bytes
	// Commands has the response times of "get", "set" and "total". It is empty if memaslap printed no statistics
	// (without -S).
	Commands map[string]*MemaslapCommand
}

// MemaslapCommand is memaslap's report of a command. Times are in seconds.
type MemaslapCommand struct {
	Requests               uint64
	Min, Max, Mean, StdDev float64
	Periods                []MemaslapPeriod
	// Histogram has bins above Lower up to Upper, which are powers of two of a microsecond.
	Histogram sample.Histogram
}

// MemaslapPeriod is a line of the periodic statistics.
type MemaslapPeriod struct {
	End, Seconds     float64 // time since the start, length
	Throughput, Mean float64
}

// ParseMemaslap reads the output of memaslap.
func ParseMemaslap(r io.Reader) (*Memaslap, error) {
	p := memaslapParser{out: &Memaslap{
		Commands: map[string]*MemaslapCommand{}, SetShare: math.NaN(),
		Throughput: math.NaN(),
	}}
	lines := bufio.NewScanner(r)
	for number := 1; lines.Scan(); number++ {
		if err := p.line(strings.TrimSpace(withoutEscapes(lines.Text()))); err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if math.IsNaN(p.out.Throughput) {
		return nil,
			errors.New("no result of memaslap found: expected a line such as Run time: 3.0s Ops: 62588 TPS: 20860")
	}
	return p.out, nil
}

// memaslapParser parses an output line by line.
type memaslapParser struct {
	out     *Memaslap
	command *MemaslapCommand // of the current statistics
	dist    bool             // in a logarithmic distribution
}

func (p *memaslapParser) line(text string) error {
	fields := strings.Fields(text)
	name, value, colon := strings.Cut(text, ":")
	value = strings.TrimSpace(value)
	switch {
	case text == "":
		p.dist = false
		return nil
	case len(fields) >= 2 && fields[1] == "Statistics":
		key := strings.ToLower(fields[0])
		if p.out.Commands[key] == nil {
			p.out.Commands[key] = &MemaslapCommand{}
		}
		p.command, p.dist = p.out.Commands[key], false
		if len(fields) > 2 {
			return readCount(strings.Trim(fields[2], "("), &p.command.Requests)
		}
		return nil
	case fields[0] == "Period" || fields[0] == "Global":
		return p.period(fields)
	case name == "Log2 Dist":
		p.dist = true
		return nil
	case p.dist && colon:
		return p.distribution(name, strings.Fields(value))
	case strings.HasPrefix(text, "Run time:"):
		return p.total(fields)
	case colon:
		return p.setting(name, value)
	}
	return nil
}

// setting reads a line with a name and a value. It ignores unknown names.
func (p *memaslapParser) setting(name, value string) error {
	if name == "set proportion" {
		return readNumber(strings.TrimPrefix(value, "set_prop="), 1, &p.out.SetShare)
	}
	counts := map[string]*uint64{
		"threads count": &p.out.Threads, "concurrency": &p.out.Connections, "cmd_get": &p.out.Gets,
		"cmd_set": &p.out.Sets, "get_misses": &p.out.Misses,
		"written_bytes": &p.out.Written, "read_bytes": &p.out.Read,
	}
	if count := counts[name]; count != nil {
		return readCount(value, count)
	}
	if p.command == nil {
		return nil
	}
	times := map[string]*float64{
		"Min": &p.command.Min, "Max": &p.command.Max, "Avg": &p.command.Mean,
		"Std": &p.command.StdDev,
	}
	if time := times[name]; time != nil {
		return readNumber(value, 1e-6, time)
	}
	return nil
}

// period reads "Period 1 13949 13949 14.5 0 14 306120 521 7865.78 111.64": seconds, operations, operations per second,
// MB/s, misses, and times in microseconds. Lines that begin with Global have the time since the start instead of the
// length.
func (p *memaslapParser) period(fields []string) error {
	if p.command == nil || len(fields) < 10 {
		return fmt.Errorf("%q: expected Type, Time, Ops, TPS, Net, Get_miss, Min, Max, Avg, Std_dev, Geo_dist below "+
			"the name of a statistic", strings.Join(fields, " "))
	}
	var values [9]float64
	for i := range values {
		if err := readNumber(fields[i+1], 1, &values[i]); err != nil {
			return err
		}
	}
	if fields[0] == "Period" {
		p.command.Periods = append(p.command.Periods,
			MemaslapPeriod{Seconds: values[0], Throughput: values[2], Mean: values[7] * 1e-6})
	} else if n := len(p.command.Periods); n > 0 {
		p.command.Periods[n-1].End = values[0]
	}
	return nil
}

// distribution reads "4: 1993 752 3714 23893": the counts of the classes 4 to 7. Class n has times above 2^(n-1) us up
// to 2^n us.
func (p *memaslapParser) distribution(first string, counts []string) error {
	n, err := strconv.Atoi(strings.TrimSpace(first))
	if err != nil || p.command == nil || n < 0 || n+len(counts) > 65 {
		return fmt.Errorf("%q: expected the number of a class, 0 to 64, and counts", first)
	}
	for i, text := range counts {
		var count uint64
		if err := readCount(text, &count); err != nil {
			return err
		}
		bin := sample.Bin{Lower: math.Ldexp(1e-6, n+i-1), Upper: math.Ldexp(1e-6, n+i), Count: float64(count)}
		if n+i == 0 {
			bin.Lower = 0
		}
		if last := len(p.command.Histogram); last > 0 && p.command.Histogram[last-1].Upper > bin.Lower*(1+1e-9) {
			return fmt.Errorf("class %d: expected the classes in ascending order, each once", n+i)
		}
		if count > 0 {
			p.command.Histogram = append(p.command.Histogram, bin)
		}
	}
	return nil
}

// total reads "Run time: 3.0s Ops: 62588 TPS: 20860 Net_rate: 23.3M/s".
func (p *memaslapParser) total(fields []string) error {
	for i := 0; i+1 < len(fields); i++ {
		var err error
		switch value := fields[i+1]; fields[i] {
		case "time:":
			err = readNumber(strings.TrimSuffix(value, "s"), 1, &p.out.Seconds)
		case "Ops:":
			err = readCount(value, &p.out.Requests)
		case "TPS:":
			err = readNumber(value, 1, &p.out.Throughput)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readNumber reads a number from 0 in a unit into target, in base units.
func readNumber(text string, unit float64, target *float64) error {
	value, err := strconv.ParseFloat(text, 64)
	if err != nil || !(value >= 0) || value > 1<<62 {
		return fmt.Errorf("%q: expected a number from 0", text)
	}
	*target = unit * value
	return nil
}

// readCount reads a whole number into target.
func readCount(text string, target *uint64) error {
	value, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return fmt.Errorf("%q: expected a whole number from 0", text)
	}
	*target = value
	return nil
}
