// Chart generates the parts of the Helm charts that derive from other files of the project, so that nothing is
// maintained twice:
//
//	README.md                 the table of values, from values.yaml and its comments
//	values.schema.json        from values.yaml, its comments, refine.go, and the options of mcmw
//
// and of the chart mcmw, or for mcmw-load
//
//	templates/_options.tpl    the options that mcmw can change while it runs, and the ranges of those with a unit
//	files/                    dashboards and rules, because Helm reads no files outside a chart
//	templates/_common.tpl     for mcmw-load, from the chart mcmw
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

// charts are the charts' directories in the project.
const charts, chartDir, loadDir = "deploy/helm", charts + "/mcmw", charts + "/mcmw-load"

// run writes all generated files. root is the project's directory.
func run(root string) error {
	files, err := generate(root)
	if err != nil {
		return err
	}
	for path, contents := range files {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			return err
		}
		if err := os.WriteFile(path, contents, 0o666); err != nil {
			return err
		}
	}
	return nil
}

// generate returns the generated files by path in the project.
func generate(root string) (map[string][]byte, error) {
	files := map[string][]byte{chartDir + "/templates/_options.tpl": []byte(liveOptions() + ranges())}
	refinements := refine()
	used := map[string]bool{}
	for dir, head := range map[string]string{chartDir: readmeHead, loadDir: readmeOfLoad} {
		text, err := os.ReadFile(filepath.Join(root, dir, "values.yaml"))
		if err != nil {
			return nil, err
		}
		values, err := parseValues(text)
		if err != nil {
			return nil, fmt.Errorf("%s/values.yaml: %w", dir, err)
		}
		schema, err := schemaOf(filepath.Base(dir), values, refinements, used)
		if err != nil {
			return nil, err
		}
		files[dir+"/README.md"], files[dir+"/values.schema.json"] = []byte(head+readmeOf(values)), schema
	}
	if err := unused(refinements, used); err != nil {
		return nil, err
	}
	copies := map[string]string{chartDir + "/templates/_common.tpl": loadDir + "/templates/_common.tpl"}
	for _, pattern := range []string{"dashboards/*.json", "rules/alerts.yml", "rules/recording.yml"} {
		paths, err := fs.Glob(os.DirFS(root), pattern)
		if err != nil {
			return nil, err
		}
		if len(paths) == 0 {
			return nil, errors.New("no file matches " + pattern)
		}
		for _, path := range paths {
			copies[path] = chartDir + "/files/" + path
		}
	}
	for from, to := range copies {
		var err error
		if files[to], err = os.ReadFile(filepath.Join(root, from)); err != nil {
			return nil, err
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
		if !slices.Contains(managed, o.Name) && !o.PoolOnly() {
			if least, most, ok := o.Range(); ok {
				fmt.Fprintf(&b, "%s: {least: %d, most: %d, accepted: %q}\n", o.Name, least, most, o.Accepts())
			}
		}
	}
	return b.String() + "{{- end -}}\n"
}
