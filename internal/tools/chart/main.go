// Chart generates the parts of the Helm chart that derive from other files of the project, so that nothing is
// maintained twice:
//
//	README.md                 the table of values, from values.yaml and its comments
//	values.schema.json        from values.yaml, its comments, refine.go, and the options of mcmw
//	templates/_options.tpl    the options that mcmw can change while it runs, and the ranges of those with a unit
//	files/                    dashboards and rules, because Helm reads no files outside a chart
//
// Run it with "go generate ./internal/tools/chart".
package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mcmw/internal/config"
)

//go:generate go run . ../../..

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "chart: expected one argument, the directory of the project")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

// chartDir is the directory of the chart in the project.
const chartDir = "deploy/helm/mcmw"

// run writes all generated files. root is the project's directory.
func run(root string) error {
	files, err := generate(root)
	if err != nil {
		return err
	}
	for path, contents := range files {
		path = filepath.Join(root, chartDir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			return err
		}
		if err := os.WriteFile(path, contents, 0o666); err != nil {
			return err
		}
	}
	return nil
}

// generate returns the generated files by path in the chart.
func generate(root string) (map[string][]byte, error) {
	text, err := os.ReadFile(filepath.Join(root, chartDir, "values.yaml"))
	if err != nil {
		return nil, err
	}
	values, err := parseValues(text)
	if err != nil {
		return nil, fmt.Errorf("values.yaml: %w", err)
	}
	schema, err := schemaOf(values)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{
		"README.md":              []byte(readmeOf(values)),
		"values.schema.json":     schema,
		"templates/_options.tpl": []byte(liveOptions() + ranges()),
	}
	for _, pattern := range []string{"dashboards/*.json", "rules/alerts.yml", "rules/recording.yml"} {
		paths, err := fs.Glob(os.DirFS(root), pattern)
		if err != nil {
			return nil, err
		}
		if len(paths) == 0 {
			return nil, errors.New("no file matches " + pattern)
		}
		for _, path := range paths {
			if files["files/"+path], err = os.ReadFile(filepath.Join(root, path)); err != nil {
				return nil, err
			}
		}
	}
	return files, nil
}

// liveOptions returns the template with the list of the options that can change while mcmw runs.
func liveOptions() string {
	var names []string
	for _, o := range config.Options {
		if o.Live() {
			names = append(names, o.Name)
		}
	}
	return fmt.Sprintf("{{- /* Options that mcmw changes while it runs. Made from internal/config by \"go generate "+
		"./internal/tools/chart\". */ -}}\n"+
		"{{- define \"mcmw.liveOptions\" -}}%s{{- end -}}\n", strings.Join(names, " "))
}

// ranges returns the template with, as YAML, the ranges of the options with a unit, which a schema cannot express.
func ranges() string {
	var b strings.Builder
	b.WriteString("\n{{- /* The least and the most of sizes, in bytes, and of times, in nanoseconds. */ -}}\n{{- " +
		"define \"mcmw.ranges\" -}}\n")
	for _, o := range config.Options {
		if !slices.Contains(managed, o.Name) && !o.PoolOnly {
			if least, most, ok := o.Range(); ok {
				fmt.Fprintf(&b, "%s: {least: %d, most: %d, accepted: %q}\n", o.Name, least, most, o.Accepts())
			}
		}
	}
	return b.String() + "{{- end -}}\n"
}
