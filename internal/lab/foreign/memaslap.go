package foreign

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"mcmw/internal/lab/sample"
)

// Memaslap is the report of one call of memaslap (memcaslap, in newer releases of libmemcached).
type Memaslap struct {
	Threads, Connections int
	// Seconds is how long it ran.
	Seconds    float64
	Requests   uint64
	Throughput float64
	// SetShare is the share of SETs among the requests, NaN if it isn't said.
	SetShare           float64
	Gets, Sets, Misses uint64
	// Written and Read are bytes.
	Written, Read uint64
	// Commands have the response times by what they are of: "get", "set" and "total". They are missing when it printed no
	// statistics (without -S).
	Commands map[string]*MemaslapCommand
}

// MemaslapCommand is memaslap's report of a command. Times are in seconds.
type MemaslapCommand struct {
	Requests          uint64
	Min, Max, Mean    float64
	StdDev, Geometric float64
	Periods           []MemaslapPeriod
	// Histogram has classes above Lower up to Upper, powers of two of a microsecond.
	Histogram sample.Histogram
}

// MemaslapPeriod is a line of the periodic statistics.
type MemaslapPeriod struct {
	// End is the time since the start, Seconds the length.
	End, Seconds           float64
	Requests               uint64
	Throughput             float64
	Misses                 uint64
	Min, Max, Mean, StdDev float64
}

// ParseMemaslap reads what memaslap prints.
func ParseMemaslap(r io.Reader) (*Memaslap, error) {
	p := memaslapParser{out: &Memaslap{Commands: map[string]*MemaslapCommand{}, SetShare: math.NaN(), Throughput: math.NaN()}}
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
		return nil, errors.New("no result of memaslap found: expected a line such as Run time: 3.0s Ops: 62588 TPS: 20860")
	}
	return p.out, nil
}

// memaslapParser goes through an output line by line.
type memaslapParser struct {
	out     *Memaslap
	command *MemaslapCommand // whose statistics the parser is in
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
			return p.count(strings.Trim(fields[2], "("), &p.command.Requests)
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

// setting takes a line of a name and a value; unused ones are left out.
func (p *memaslapParser) setting(name, value string) error {
	var n uint64
	switch name {
	case "threads count":
		err := p.count(value, &n)
		p.out.Threads = int(min(n, math.MaxInt32))
		return err
	case "concurrency":
		err := p.count(value, &n)
		p.out.Connections = int(min(n, math.MaxInt32))
		return err
	case "set proportion":
		share, err := p.number(strings.TrimPrefix(value, "set_prop="))
		p.out.SetShare = share
		return err
	case "cmd_get":
		return p.count(value, &p.out.Gets)
	case "cmd_set":
		return p.count(value, &p.out.Sets)
	case "get_misses":
		return p.count(value, &p.out.Misses)
	case "written_bytes":
		return p.count(value, &p.out.Written)
	case "read_bytes":
		return p.count(value, &p.out.Read)
	}
	if p.command == nil {
		return nil
	}
	for label, target := range map[string]*float64{
		"Min": &p.command.Min, "Max": &p.command.Max, "Avg": &p.command.Mean, "Geo": &p.command.Geometric, "Std": &p.command.StdDev,
	} {
		if name == label {
			microseconds, err := p.number(value)
			*target = microseconds * 1e-6
			return err
		}
	}
	return nil
}

// period takes "Period 1 13949 13949 14.5 0 14 306120 521 7865.78 111.64": seconds, operations, operations per second, MB/s,
// misses, and times in microseconds. Lines that are Global have the time since the start instead.
func (p *memaslapParser) period(fields []string) error {
	if p.command == nil || len(fields) < 10 {
		return fmt.Errorf("%q: expected Type, Time, Ops, TPS, Net, Get_miss, Min, Max, Avg, Std_dev, Geo_dist below the name of a statistic", strings.Join(fields, " "))
	}
	var values [9]float64
	for i := range values {
		value, err := p.number(fields[i+1])
		if err != nil {
			return err
		}
		values[i] = value
	}
	if fields[0] == "Period" {
		p.command.Periods = append(p.command.Periods, MemaslapPeriod{
			Seconds: values[0], Requests: uint64(values[1]), Throughput: values[2], Misses: uint64(values[4]),
			Min: values[5] * 1e-6, Max: values[6] * 1e-6, Mean: values[7] * 1e-6, StdDev: values[8] * 1e-6,
		})
	} else if n := len(p.command.Periods); n > 0 {
		p.command.Periods[n-1].End = values[0]
	}
	return nil
}

// distribution takes "4: 1993 752 3714 23893": the counts of the classes 4 to 7. Class n has times above 2^(n-1) us up
// to 2^n us.
func (p *memaslapParser) distribution(first string, counts []string) error {
	n, err := strconv.Atoi(strings.TrimSpace(first))
	if err != nil || p.command == nil || n < 0 || n+len(counts) > 65 {
		return fmt.Errorf("%q: expected the number of a class, 0 to 64, and counts", first)
	}
	for i, text := range counts {
		var count uint64
		if err := p.count(text, &count); err != nil {
			return err
		}
		bin := sample.Bin{Lower: math.Ldexp(1e-6, n+i-1), Upper: math.Ldexp(1e-6, n+i), Count: float64(count)}
		if n+i == 0 {
			bin.Lower = 0
		}
		if last := len(p.command.Histogram); last > 0 && p.command.Histogram[last-1].Upper > bin.Lower*(1+1e-9) {
			return fmt.Errorf("class %d comes again or too late", n+i)
		}
		if count > 0 {
			p.command.Histogram = append(p.command.Histogram, bin)
		}
	}
	return nil
}

// total takes "Run time: 3.0s Ops: 62588 TPS: 20860 Net_rate: 23.3M/s".
func (p *memaslapParser) total(fields []string) error {
	for i := 0; i+1 < len(fields); i++ {
		var err error
		switch value := fields[i+1]; fields[i] {
		case "time:":
			p.out.Seconds, err = p.number(strings.TrimSuffix(value, "s"))
		case "Ops:":
			err = p.count(value, &p.out.Requests)
		case "TPS:":
			p.out.Throughput, err = p.number(value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// number reads a number from 0.
func (p *memaslapParser) number(text string) (float64, error) {
	value, err := strconv.ParseFloat(text, 64)
	if err != nil || !(value >= 0) || value > 1<<62 {
		return 0, fmt.Errorf("%q: expected a number from 0", text)
	}
	return value, nil
}

// count reads a whole number into target.
func (p *memaslapParser) count(text string, target *uint64) error {
	value, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return fmt.Errorf("%q: expected a whole number from 0", text)
	}
	*target = value
	return nil
}
