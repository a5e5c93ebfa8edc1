// Package experiments holds the reports' experiments as files, and what the reports found as claims.
package experiments

import _ "embed"

// Claims are the key findings of the reports with the rules that decide them (docs/results/paper.md).
//
//go:embed claims.yaml
var Claims []byte
