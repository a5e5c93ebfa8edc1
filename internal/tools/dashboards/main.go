// Command dashboards writes mcmw's Grafana dashboards, as JSON for import, to a directory:
//
//	go run . ../../../dashboards
//
// The dashboards are described in Go (overview.go and others), because many panels have similar queries. The command is
// a separate module, so that mcmw itself does not depend on Grafana's packages.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

//go:generate go run . ../../../dashboards

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: dashboards DIRECTORY")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "dashboards:", err)
		os.Exit(1)
	}
}

// write writes all dashboards to the directory dir.
func write(dir string) error {
	for _, b := range boards() {
		text, err := b.json()
		if err != nil {
			return fmt.Errorf("%s: %w", b.name, err)
		}
		if err := os.WriteFile(filepath.Join(dir, b.name+".json"), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
