package collect

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"mcmw/lab/load"
	"mcmw/lab/record"
	"mcmw/lab/testbed"
)

// LoadRun returns the run of a load from its result in JSON. If the load was interrupted, the run is a failed one.
func LoadRun(text []byte) (run record.Run, err error) {
	var l load.Result
	err = json.Unmarshal(text, &l)
	if err == nil && (l.Driver == "" || l.Connections < 1) {
		err = errors.New("driver or connections is missing")
	}
	if err != nil {
		return run, fmt.Errorf("no result of a load: %w: expected a file that mcmwlab load wrote with --json-out-file",
			err)
	}
	run = record.Run{State: record.Complete, Factors: loadFactors(&l)}
	if l.Interrupted {
		run.State, run.Error, run.Started = record.Failed, "the load was interrupted", l.Started
		return run, nil
	}
	err = Run(&testbed.Outputs{Loads: [][]byte{text}}, &run)
	return run, err
}

// loadFactors returns the properties of a load by the names of an experiment's settings.
func loadFactors(l *load.Result) map[string]string {
	f := map[string]string{
		"clients": strconv.Itoa(l.Connections), "connections": strconv.Itoa(l.Connections),
		"load_threads": strconv.Itoa(l.Threads),
		"pipeline":     strconv.Itoa(l.Pipeline), "ratio": fmt.Sprintf("%d:%d", l.Sets, l.Gets),
		"keys_per_get": strconv.Itoa(l.KeysPerGet),
		"value_size":   cmp.Or(l.ValueSizes, strconv.Itoa(l.ValueSize)), "key_pattern": l.KeyPattern,
		"keys": strconv.FormatUint(l.Keys, 10), "think_time": l.ThinkTime.String(),
		"rate": cmp.Or(l.Rate, "0"), "protocol": l.Protocol, "tls": strconv.FormatBool(l.TLS),
	}
	if l.MultiGets > 0 {
		f["ratio"] += ":" + strconv.Itoa(l.MultiGets)
	}
	if l.Rate != "" {
		f["arrivals"] = l.Arrivals
	}
	return f
}
