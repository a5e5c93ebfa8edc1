// Package report makes figures, tables and a page of a record of experiments.
//
//  1. Read takes the complete runs of a record together by their points: the combinations of factor levels. What a metric
//     came to at a point is an Estimate: the mean over the repetitions and its confidence interval.
//  2. A View says which factor is the x axis, which one tells the lines of a figure apart, and which ones its panels. Choose finds
//     a view that fits the factors of the record.
//  3. Analyse finds, for every line, where the system saturates and what limits it, by the rules of Saturation and Bottleneck.
//  4. The catalogs of figures and tables make of that what can be made of what was measured; Page puts all of it on one HTML page.
//
// Values are in base units until they are shown. Every figure and table says how to make it again, and which violated checks are
// behind it. Statistics come from package sample.
package report
