package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"

	"mcmw/lab/plot"
)

// saveFigures writes figures as NAME.svg into a directory, which it creates if needed.
func saveFigures(dir string, figures map[string]plot.Figure) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(figures)) {
		if err := os.WriteFile(filepath.Join(dir, name+".svg"), figures[name].SVG(), 0o644); err != nil {
			return err
		}
	}
	return nil
}
