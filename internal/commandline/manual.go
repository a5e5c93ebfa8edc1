package commandline

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Manual returns the manual pages of root and its commands, from their own descriptions: for each name, such as
// mcmw-serve, the page's text in the language of man(7). version is the program's.
func Manual(root *cobra.Command, version string) map[string]string {
	pages := map[string]string{}
	var add func(c *cobra.Command)
	add = func(c *cobra.Command) {
		if c.Hidden || c.IsAdditionalHelpTopicCommand() {
			return
		}
		pages[pageName(c)] = page(c, version)
		for _, sub := range c.Commands() {
			add(sub)
		}
	}
	root.InitDefaultCompletionCmd()
	add(root)
	return pages
}

// pageName returns the name of c's page.
func pageName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// roff returns text so that it stands for itself, also at the beginning of a line.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "`", `\(ga`, "'", `\(aq`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}

// paragraphs returns text with a request for a new paragraph at each empty line.
func paragraphs(text string) string { return strings.ReplaceAll(roff(text), "\n\n", "\n.PP\n") }

// page returns the page of c.
func page(c *cobra.Command, version string) string {
	var b strings.Builder
	section := func(title string) { fmt.Fprintf(&b, ".SH %s\n", title) }
	name := pageName(c)
	fmt.Fprintf(&b, ".TH \"%s\" 1 \"\" \"%s %s\"\n", roff(strings.ToUpper(name)), roff(c.Root().Name()), roff(version))
	b.WriteString(".nh\n.ad l\n")
	section("NAME")
	fmt.Fprintf(&b, "%s \\- %s\n", roff(name), roff(strings.ToLower(c.Short[:1])+c.Short[1:]))
	section("SYNOPSIS")
	use := c.UseLine()
	if !c.Runnable() || c.HasAvailableSubCommands() {
		use = c.CommandPath() + " COMMAND"
	}
	fmt.Fprintf(&b, "\\fB%s\\fR\n", roff(use))
	section("DESCRIPTION")
	text := c.Long
	if text == "" {
		text = c.Short + "."
	}
	fmt.Fprintf(&b, "%s\n", paragraphs(strings.TrimSpace(text)))
	if c.HasAvailableSubCommands() {
		section("COMMANDS")
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() {
				fmt.Fprintf(&b, ".TP\n\\fB%s\\fR\n%s\n", roff(sub.CommandPath()), roff(sub.Short))
			}
		}
	}
	flags := c.NonInheritedFlags()
	if flags.HasAvailableFlags() {
		section("OPTIONS")
		flags.VisitAll(func(f *pflag.Flag) {
			if visible(f) {
				b.WriteString(option(f))
			}
		})
	}
	if c.Example != "" {
		section("EXAMPLES")
		fmt.Fprintf(&b, ".nf\n%s\n.fi\n", roff(c.Example))
	}
	section("EXIT STATUS")
	b.WriteString("0 on success, 1 on failure, 2 if the command line, the environment or the configuration file is " +
		"invalid, 130 if a signal ended it before there was a result.\n")
	others := c.Commands()
	if c.HasParent() {
		others = append([]*cobra.Command{c.Parent()}, others...)
	}
	var see []string
	for _, o := range others {
		if o.IsAvailableCommand() || o.HasAvailableSubCommands() {
			see = append(see, fmt.Sprintf("\\fB%s\\fR(1)", roff(pageName(o))))
		}
	}
	if len(see) > 0 {
		section("SEE ALSO")
		b.WriteString(strings.Join(see, ", ") + "\n")
	}
	return b.String()
}

// option returns the entry of f.
func option(f *pflag.Flag) string {
	kind, usage := pflag.UnquoteUsage(f)
	head := `\fB` + roff("--"+f.Name) + `\fR`
	if f.Shorthand != "" {
		head = `\fB` + roff("-"+f.Shorthand) + `\fR, ` + head
	}
	if kind != "" {
		head += ` \fI` + roff(kind) + `\fR`
	}
	switch f.DefValue {
	case "", "false", "0", "[]":
	default:
		usage += " (default " + f.DefValue + ")"
	}
	return fmt.Sprintf(".TP\n%s\n%s\n", head, roff(usage))
}
