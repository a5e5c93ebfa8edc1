// Command dashboards writes the Grafana dashboards of mcmw, as JSON to be imported, into a directory:
//
//	go run . ../../../dashboards
//
// They are described in Go (overview.go and the others), because many panels ask for the same things in the same way. It is a
// module of its own, so that the programs need nothing of Grafana's.
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

// write writes all dashboards into the directory.
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
