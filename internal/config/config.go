// Package config reads the operator's settings into a Config. The sources, in descending order of precedence, are
// command line flags, MCMW_* environment variables, a strict YAML file, and defaults.
//
// The table in options.go describes every option once: its names, default, range and meaning. The flags, the
// environment variables, the file's keys, `mcmw config print` and docs/configuration.md are derived from it.
//
// Every value of every source is checked, even if another source overrides it, and all problems are reported together.
// A Problem says where the value is, what it is and what is accepted.
//
// Nothing on the path of a request imports this package: the stages have their own Options.
package config

import (
	_ "embed"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"mcmw/internal/discover"
	"mcmw/internal/middleware"
)

// Config is the value of every option. The table in options.go says what each means and what it may be.
type Config struct {
	File string // the YAML file read, "" none

	// Options are the middleware's, with differences that the method With removes: the addresses in Listen may lack a
	// port, StallAfter 0 means never, the pools of Shadows and Follows have nothing but names, and Follows are in the
	// Config of the pool that is followed. Servers has only the servers that need no lookup.
	middleware.Options
	// Lookups has the servers as the operator wrote them, and the settings for looking them up.
	discover.Lookups

	GutterTTL       time.Duration // of a pool; 0: not given
	FollowMemory    int           // of a pool, for each server of the pools that follow it
	ListenPort      int           // of the addresses in Listen that have none
	ResolveInterval time.Duration
	Procs           int // GOMAXPROCS; 0: the Go runtime's choice

	StatsFile   string // "" none
	StatsWindow time.Duration
	Sample      int           // one of every Sample requests is logged; 0: none
	Slow        time.Duration // 0: no request is slow
	RequestLog  string        // "" the log
	LogKeys     bool

	Admin     string // "" off
	LogLevel  slog.Level
	LogFormat string

	WatchInterval time.Duration // 0: never

	// Warnings are possible mistakes that may be intended, one line each.
	Warnings []string

	// pools have a Config each, with the pool's value of every option: the value outside the pools unless the pool's
	// mapping sets it. Without pools in the file it is this Config alone, which has no name.
	pools       []*Config
	name        string     // of the pool
	given       []*Option  // those that the pool's mapping sets, in the table's order
	poolMapping *yaml.Node // the file's mapping of pools; nil: there is none

	noFiles  bool // Sources.NoFiles
	complete bool // Servers has all servers: none has to be looked up

	// by option name, and by element, such as routes[2]; an option without an entry has its default
	origins map[string]Origin
	unread  bool            // the file could not be read: options that it might set are not reported as missing
	refused map[string]bool // options for which a source gave an invalid value
}

// Origin says where the value of the option called name came from.
func (c *Config) Origin(name string) Origin { return c.origins[name] }

// ListenAddrs returns the addresses to listen on, each with its port.
func (c *Config) ListenAddrs() []string {
	addrs := make([]string, len(c.Listen))
	for i, a := range c.Listen {
		addrs[i] = completeListen(a, c.ListenPort)
	}
	return addrs
}

//go:generate go run mcmw/cmd/mcmw config docs --write ../../docs/configuration.md

// Write writes every option as a YAML file that Load reads back to the same values. With origins, each line ends with
// the origin of its value.
func (c *Config) Write(w io.Writer, origins bool) error {
	root := &yaml.Node{Kind: yaml.MappingNode}
	for _, o := range Options {
		if !o.inFile() {
			continue
		}
		key, value, err := appendField(root, o.Name, o.kind.get(c))
		if err != nil {
			return err
		}
		if origins {
			commented := value
			if value.Kind == yaml.SequenceNode && len(value.Content) > 0 {
				commented = key
			}
			commented.LineComment = "# " + c.Origin(o.Name).String()
		}
	}
	var b strings.Builder
	encoder := yaml.NewEncoder(&b)
	encoder.SetIndent(2)
	if err := encoder.Encode(root); err != nil {
		return err
	}
	if origins && c.File != "" {
		if _, err := io.WriteString(w, "# "+c.File+" ("+c.Origin(optionConfig).String()+")\n"); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// docsHead is the beginning of docs/configuration.md; {{live}} stands for the options that can change.
//
//go:embed docs.md
var docsHead string

// brief removes what the head of the page says for all options.
var brief = strings.NewReplacer(sizeForm, "", durationForm, "")

// Documentation returns docs/configuration.md: the rules, and a table of all options.
func Documentation() string {
	var b strings.Builder
	b.WriteString(strings.Replace(docsHead, "{{live}}", strings.Join(namesOf((*Option).Live), "`, `"), 1))
	group := ""
	for _, o := range Options {
		if o.Group != group {
			group = o.Group
			fmt.Fprintf(&b, "\n## %s\n\n| flag | default | accepted | meaning |\n|---|---|---|---|\n", group)
		}
		flags, def := o.flags(), "none: required, unless there are pools"
		switch {
		case o.PoolOnly():
			flags, def = "pools: NAME: "+o.Name+":", "none"
		case o.InFileOnly():
			flags, def = o.Name+":", "none"
		case o.Default != "":
			def = "`" + o.Default + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", flags, def, cell(brief.Replace(o.Accepts())), cell(o.Help))
	}
	return b.String()
}

// cell escapes text for a Markdown table cell.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "*", `\*`, "[", `\[`, "]", `\]`).Replace(text)
}
