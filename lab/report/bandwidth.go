package report

import (
	"maps"
	"math"
	"slices"

	"mcmw/lab/frame"
	"mcmw/lab/plot"
)

const (
	// limitRoom is the ratio to the highest value up to which the bandwidth limit is drawn. A higher limit would press
	// the values to the bottom.
	limitRoom = 2.5
	// sameLimit is the ratio of two bandwidth limits up to which they are drawn as one.
	sameLimit = 1.05
)

// bandwidths returns marks for the bandwidth limits of lines that are at most highest: several if they differ, as with
// different numbers of servers. A limit that differs along the x axis, as with different sizes of values, is a line.
func (a *artist) bandwidths(lines []Line, highest float64) (marks []plot.Mark) {
	limit := func(points []frame.Point) float64 {
		e := (frame.Point{Runs: frame.Frame{Points: points}.Runs(), Confidence: a.d.Confidence}).
			Derive(a.d.bandwidthLimit)
		if !e.OK() {
			return math.NaN()
		}
		return e.Mean
	}
	same := func(x, y float64) bool { return max(x/y, y/x) <= sameLimit }
	type group struct {
		first map[float64]float64 // limits of the first line, by position
		at    map[float64][]frame.Point
	}
	var groups []group
	for _, l := range lines {
		limits, at := map[float64]float64{}, map[float64][]frame.Point{}
		for _, p := range l.Points {
			if of := limit([]frame.Point{p}); !math.IsNaN(of) {
				x := a.d.place(a.v, p)
				limits[x], at[x] = of, append(at[x], p)
			}
		}
		if len(limits) == 0 {
			continue
		}
		i := slices.IndexFunc(groups, func(g group) bool {
			for x, of := range limits {
				if first, ok := g.first[x]; !ok || !same(of, first) {
					return false
				}
			}
			return true
		})
		if i < 0 {
			groups = append(groups, group{limits, at})
			continue
		}
		for x, points := range at {
			groups[i].at[x] = append(groups[i].at[x], points...)
		}
	}
	name := "bandwidth"
	for _, g := range groups {
		bound := plot.Line{Name: name, Look: plot.Bound}
		var all []frame.Point
		level := true
		for _, x := range slices.Sorted(maps.Keys(g.at)) {
			all = append(all, g.at[x]...)
			of := limit(g.at[x])
			level = level && (len(bound.Points) == 0 || same(of, bound.Points[0].Y))
			bound.Points = append(bound.Points, plot.At(x, of))
		}
		switch of := limit(all); {
		case level && of <= highest:
			marks = append(marks, plot.Limit{Name: name, Y: of})
		case level:
			continue
		default:
			for i := range bound.Points {
				if bound.Points[i].Y > highest {
					bound.Points[i].Y = math.NaN()
				}
			}
			if !known(bound) {
				continue
			}
			marks = append(marks, bound)
		}
		name = ""
	}
	return marks
}
