package bench

import "fmt"

// Goal is what mcmw is to reach of twemproxy's figures under a workload: ratios of medians; 0 for what has no goal.
type Goal struct {
	Throughput    float64 `json:"throughput"`      // at least
	CPUPerRequest float64 `json:"cpu_per_request"` // at most
	P99           float64 `json:"p99"`             // at most
}

// Verdict is how a ratio stands to its goal.
type Verdict struct {
	Goal    Goal `json:"goal"`
	Reached bool `json:"reached"`
	// Missed names what was not reached.
	Missed []string `json:"missed,omitempty"`
}

// verdict judges r; nil where there is no goal: it is one of mcmw against twemproxy.
func (g Goal) verdict(r Ratio) *Verdict {
	if g == (Goal{}) || r.System != Mcmw || r.To != Twemproxy {
		return nil
	}
	v := &Verdict{Goal: g}
	judge := func(name string, got Spread, goal float64, missed bool) {
		if goal != 0 && missed {
			v.Missed = append(v.Missed, fmt.Sprintf("%s %.2f", name, got.Median))
		}
	}
	judge("throughput", r.Throughput, g.Throughput, r.Throughput.Median < g.Throughput)
	judge("CPU", r.CPUPerRequest, g.CPUPerRequest, r.CPUPerRequest.Median > g.CPUPerRequest)
	judge("p99", r.P99, g.P99, r.P99.Median > g.P99)
	v.Reached = len(v.Missed) == 0
	return v
}

// String says what the goal is.
func (g Goal) String() string {
	return fmt.Sprintf("throughput >= %.2f, CPU <= %.2f, p99 <= %.1f", g.Throughput, g.CPUPerRequest, g.P99)
}

// String says the verdict in words.
func (v *Verdict) String() string {
	switch {
	case v == nil:
		return "-"
	case v.Reached:
		return "reached"
	}
	text := "missed: "
	for i, m := range v.Missed {
		if i > 0 {
			text += ", "
		}
		text += m
	}
	return text
}
