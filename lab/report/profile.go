package report

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"github.com/google/pprof/profile"

	"mcmw/lab/frame"
	"mcmw/lab/plot"
	"mcmw/lab/record"
	"mcmw/lab/table"
)

// shownFunctions is the number of functions that a profile shows.
const shownFunctions = 10

// profile lists the functions of the middlewares that use the most processor time, for each line at the point of the
// highest throughput.
func (a *artist) profile() table.Table {
	t := table.Table{Notes: []string{"Shares of the processor time of the middlewares: in the function itself, and " +
		"with the functions that it calls."}}
	t.AddLeft("line", "function")
	t.Add("itself", "with others")
	a.each(func(panel Panel, l Line) {
		if l.Highest < 0 {
			return
		}
		p := l.Points[l.Highest]
		own, all, total := map[string]int64{}, map[string]int64{}, int64(0)
		for _, of := range a.profiles(p, &t) {
			for _, s := range of.Sample {
				nanoseconds := s.Value[len(s.Value)-1]
				total += nanoseconds
				seen := map[string]bool{}
				for depth, place := range s.Location {
					for inlined, line := range place.Line {
						name := line.Function.Name
						if depth+inlined == 0 {
							own[name] += nanoseconds
						}
						if !seen[name] {
							all[name] += nanoseconds
						}
						seen[name] = true
					}
				}
			}
		}
		name := join(panel.Name, l.Name, levelName(a.v.X, p.Levels[a.v.X]))
		share := func(of int64) string { return plot.Ratio.Format(float64(of) / float64(total)) }
		functions := slices.SortedFunc(maps.Keys(own), func(f, g string) int {
			return cmp.Or(cmp.Compare(own[g], own[f]), cmp.Compare(f, g))
		})
		for _, f := range functions[:min(len(functions), shownFunctions)] {
			t.Rows = append(t.Rows, []string{name, f, share(own[f]), share(all[f])})
		}
	})
	return t
}

// profiles returns the profiles of a point's runs. A note of t says which can't be read.
func (a *artist) profiles(p frame.Point, t *table.Table) (all []*profile.Profile) {
	for _, run := range p.Runs {
		for i := 0; ; i++ {
			text, err := a.d.store.Raw(run.ID, record.ProfileFile(i))
			if errors.Is(err, fs.ErrNotExist) {
				break
			}
			one, parseErr := profile.ParseData(text)
			if err = cmp.Or(err, parseErr); err != nil {
				t.Notes = append(t.Notes, fmt.Sprintf("The profile of middleware:%d in run %d: %v.", i, run.ID, err))
				continue
			}
			all = append(all, one)
		}
	}
	return all
}
