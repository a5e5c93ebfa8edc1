package experiment

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"mcmw/lab/table"
)

// Plan describes the runs of the experiment.
func (e *Experiment) Plan() table.Table {
	t := table.Table{Columns: []string{"", ""}, Left: []int{1}}
	line := func(name, format string, args ...any) {
		t.Rows = append(t.Rows, []string{name, fmt.Sprintf(format, args...)})
	}
	title := e.Name
	if e.Title != "" {
		title += ": " + e.Title
	}
	line("experiment", "%s", title)
	line("testbed", "%s%s%s", e.Testbed, e.machines(), e.pinned())
	for i, f := range e.Factors {
		name := ""
		if i == 0 {
			name = "factors"
		}
		line(name, "%s: %s", f.Name, strings.Join(f.Levels, ", "))
	}
	if constants := e.constants(); constants != "" {
		line("constants", "%s", constants)
	}
	line("points", "%d", len(e.Points))
	if e.Stop != nil {
		line("repetitions", "%s", e.Stop)
	} else {
		line("repetitions", "%d", e.Repetitions)
	}
	if q := e.Quality; q != nil {
		text := q.Rule.String()
		if slices.Contains(e.Points[0].Varied, q.Over) {
			text += ", over " + q.Over
		}
		if q.GiveUp > 0 {
			text += fmt.Sprintf("; higher levels are given up after %d consecutive ones that break it", q.GiveUp)
		}
		line("quality", "%s", text)
	}
	line("order", "%s, seed %d", e.Order, e.Seed)
	again := ""
	if most := e.Phases.ForeignLoad; most > 0 && e.Testbed != KubernetesTestbed { // where it is not known
		again = fmt.Sprintf(", made again with more than %.3g %% of foreign load", 100*most)
		if e.Testbed == SSHTestbed {
			again += ", if one host runs everything"
		}
	}
	line("each run", "%s%s", e.Phases, again)
	least, most := e.Runs()
	if least == most {
		line("runs", "%d, about %s", least, e.about(least))
	} else {
		line("runs", "%d to %d, about %s to %s", least, most, e.about(least), e.about(most))
	}
	return t
}

func (e *Experiment) about(runs int) time.Duration {
	return (time.Duration(runs) * e.RunTime()).Round(time.Second)
}

// String returns the phases in their order.
func (p Phases) String() string {
	var parts []string
	if p.Restart {
		parts = append(parts, "start")
	}
	if p.Populate {
		parts = append(parts, "populate")
	}
	parts = append(parts, fmt.Sprintf("warm up %v", p.WarmUp), fmt.Sprintf("measure %v", p.Duration))
	if p.CoolDown > 0 {
		parts = append(parts, fmt.Sprintf("cool down %v", p.CoolDown))
	}
	return strings.Join(parts, ", ")
}

// constants returns the settings that are the same at all points and differ from their defaults.
func (e *Experiment) constants() string {
	var parts []string
	for _, s := range Settings {
		same := !slices.Contains(e.Points[0].Varied, s.Name)
		for _, p := range e.Points {
			same = same && p.Values[s.Name] == e.Points[0].Values[s.Name]
		}
		if value := e.Points[0].Values[s.Name]; same && value != s.Default {
			parts = append(parts, s.Name+" "+value)
		}
	}
	return strings.Join(parts, ", ")
}

func (e *Experiment) machines() string {
	var parts []string
	for _, role := range roles {
		if m, ok := e.Machines[role]; ok {
			parts = append(parts, role+": "+m.String())
		}
	}
	if e.Delay > 0 {
		parts = append(parts, fmt.Sprintf("delay %v", e.Delay))
	}
	if e.Dilation > 1 {
		parts = append(parts, fmt.Sprintf("time %g times slower", e.Dilation))
	}
	if len(parts) == 0 {
		return ""
	}
	return "; " + strings.Join(parts, "; ")
}

func (e *Experiment) pinned() string {
	var parts []string
	for _, role := range roles {
		if cpus := e.CPUs[role]; len(cpus) > 0 {
			parts = append(parts, fmt.Sprintf("%s on processors %s", role,
				strings.Trim(strings.ReplaceAll(fmt.Sprint(cpus), " ", ","), "[]")))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "; " + strings.Join(parts, ", ")
}
