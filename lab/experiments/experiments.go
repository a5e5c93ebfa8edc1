// Package experiments holds the reports' experiments as files, and what the reports found and printed.
package experiments

import "embed"

// Bench has the loads of mcmwlab bench.
//
//go:embed bench.yaml
var Bench []byte

// Reports are the published reports: what each found, with the conditions that decide it (docs/results/paper.md), and
// the printed numbers that its repeated experiments are set beside. Package paper reads them.
//
//go:embed reports
var Reports embed.FS
