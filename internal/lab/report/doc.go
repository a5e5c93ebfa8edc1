// Package report makes figures, tables and a page of a record of experiments.
//
//  1. Read groups the complete runs of a record by their points: the combinations of factor levels. An Estimate is a metric's
//     mean over the repetitions of a point, with its confidence interval.
//  2. A View says which factor is the x axis, which one distinguishes the lines of a figure, and which ones its panels. Choose
//     finds a view that fits the factors of the record.
//  3. Analyse finds, for every line, where the system saturates and what limits it, by the rules of Saturation and Bottleneck.
//  4. The catalogs of figures and tables make all figures and tables that the record allows; Data.Report collects them, and
//     Report.WriteHTML, WriteMarkdown and WriteLaTeX write them.
//
// Values are in base units until they are shown. Every figure and table has the command that makes it again, and the
// violated checks behind it. Statistics come from package sample.
package report
