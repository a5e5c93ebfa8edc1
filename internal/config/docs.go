package config

import (
	_ "embed"
	"fmt"
	"strings"
)

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
