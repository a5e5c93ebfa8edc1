// Package reproduce makes a page that compares a published report with records of its repeated experiments: the report's tables beside
// the measurements, figures of the records, and the report's findings with the verdicts of package claim.
package reproduce
