package foreign

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"mcmw/lab/collect"
	"mcmw/lab/memtier"
	"mcmw/lab/record"
)

// Formats are the formats of single files.
var Formats = []string{"mcmwlab", "memtier", "memaslap", "dstat"}

// ParseFile returns the runs in a file's text, and their format. With the format "auto" it is the first format that
// accepts the text. factors are added to those of the runs.
func ParseFile(text []byte, format string, factors map[string]string) ([]record.Run, string, error) {
	formats := []string{format}
	if format == "auto" {
		formats = Formats
	} else if !slices.Contains(Formats, format) {
		return nil, "", fmt.Errorf("format %q: expected one of auto, %s", format, strings.Join(Formats, ", "))
	}
	var failures []error
	for _, f := range formats {
		runs, err := parseAs(text, f, factors)
		if err == nil {
			return runs, f, nil
		}
		failures = append(failures, fmt.Errorf("as %s: %w", f, err))
	}
	return nil, "", errors.Join(failures...)
}

func parseAs(text []byte, format string, factors map[string]string) ([]record.Run, error) {
	switch format {
	case "mcmwlab":
		run, err := collect.LoadRun(text)
		if err != nil {
			return nil, err
		}
		maps.Copy(run.Factors, factors)
		return []record.Run{run}, nil
	case "memaslap":
		m, err := ParseMemaslap(bytes.NewReader(text))
		if err != nil {
			return nil, err
		}
		return []record.Run{MemaslapRun(m, factors)}, nil
	case "dstat":
		samples, err := ParseDstat(bytes.NewReader(text))
		if err != nil {
			return nil, err
		}
		return []record.Run{DstatRun(samples, factors)}, nil
	}
	parse := memtier.ParseText
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
		parse = memtier.ParseJSON
	}
	out, err := parse(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	return MemtierRuns(out, factors), nil
}
