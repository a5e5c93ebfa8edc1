// Package experiments holds the reports' experiments as files, and what the reports found as claims.
package experiments

import "embed"

// Claims are the key findings of the reports with the rules that decide them (docs/results/paper.md).
//
//go:embed claims.yaml
var Claims []byte

// Bench has the loads of mcmwlab bench.
//
//go:embed bench.yaml
var Bench []byte

// Reports are the published reports: what each prints, what of it is recomputed, and what its repeated experiments are set beside
// (reports/NAME.yaml).
//
//go:embed reports
var Reports embed.FS
