// Package report makes figures, tables and a page from a record of experiments.
//
//  1. Read groups the complete runs of a record by point, which is a combination of factor levels. An Estimate is the
//     mean of a metric over the repetitions of a point, with its confidence interval.
//  2. A View assigns factors to the x axis, the lines and the panels of figures. Choose finds a view that fits the
//     record.
//  3. Panels arranges the points as panels and lines. It finds for every line where the system saturates and which
//     component limits it; see Saturation and Bottleneck.
//  4. The catalogs of figures and tables make all figures and tables for which the record has measurements. Data.Report
//     collects them, and Report.Write writes them.
//
// Values are in base units until they are formatted. Every figure and table has the command that makes it again, and a
// summary of the checks that its runs violate. Statistics come from package sample.
package report
