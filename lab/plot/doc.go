// Package plot draws the lab's figures as SVG: lines with error bars and limits, stacked bars,
// percentile boxes, histograms, traces, CDFs and Q-Q plots.
//
//	figure := plot.Figure{Title: "Throughput", Panels: []plot.Chart{{
//		X: plot.Axis{Label: "clients", FromZero: true},
//		Y: plot.Axis{Label: "throughput", Unit: plot.OpsPerSecond, FromZero: true},
//		Marks: []plot.Mark{
//			plot.Line{Name: "8 workers", Points: []plot.Point{plot.At(6, 2357), plot.Between(12, 4520, 4480, 4560)}},
//			plot.Limit{Name: "bandwidth", Y: 9000},
//		},
//	}}}
//	os.WriteFile("throughput.svg", figure.SVG(), 0o644)
//
// Values are in base units (seconds, bytes, operations per second, ratios 0..1); the axes choose the SI prefix. NaN is
// not drawn. The same figure always gives the same bytes. Series differ in colour, marker and dashes, so that
// colour-blind readers can tell them apart, and so can readers of black-and-white paper.
//
// A figure follows the reader's colour scheme: the light colours are attributes of the shapes, the dark ones are in the
// style sheet [Style]. Figure.SVG puts the style sheet into the file; Chart.Inline does not, because a page needs it
// only once.
package plot
