package config

import (
	"fmt"
	"strings"
)

var docsHead = `# Configuration

<!-- Made from the table of options in internal/config by "go generate ./internal/config". Edit it there. -->

Every option can be a flag, an environment variable or a key in a YAML file. The tables have the flags.

| source | example | |
|---|---|---|
| flag | ` + "`--max-value 2m`" + ` | overrides everything |
| environment | ` + "`MCMW_MAX_VALUE=2m`" + ` | overrides the file; an empty variable counts as not set |
| file | ` + "`max-value: 2m`" + ` | the file of ` + "`--config`" + ` or ` + "`MCMW_CONFIG`" + `; none by default |

A list replaces the whole list of the source it overrides. Every value is checked, also an
overridden one. All errors are reported at once; the exit code is then 2.

    mcmw config check --config mcmw.yaml     # OK, or everything that is wrong
    mcmw config print                        # a complete file with all defaults
    mcmw config explain user:42 --config mcmw.yaml     # its servers, and why
    mcmw config import nutcracker.yml       # twemproxy's or mcrouter's as one of mcmw's
    mcmw config print --config mcmw.yaml --show-origin     # and where each value comes from

Shell completion: ` + "`source <(mcmw completion bash)`" + ` (also zsh, fish and powershell).

## While mcmw runs

SIGHUP, or a change of the file, makes mcmw read flags, environment and file again. A valid configuration is put in force as
a whole, under load, and the log says what changed. An invalid one changes nothing, and the log has the error. These options
may change while mcmw runs: ` + "`" + strings.Join(live, "`, `") + "`" + `.
A change of any other option is an error. The file counts as changed when its path leads to another file, size or
modification time (` + "`watch-interval`" + `).

All mcmw in front of the same servers should have the same hashes in ` + "`mcmw_config_info`" + `.

## Servers

| form | name | address | weight |
|---|---|---|---|
| ` + "`cache1`" + ` | cache1 | cache1:11211 | 1 |
| ` + "`cache1:11212`" + ` | cache1:11212 | cache1:11212 | 1 |
| ` + "`blue=10.0.0.1:11212*3`" + ` | blue | 10.0.0.1:11212 | 3 |
| ` + "`cache1@eu-1a`" + ` | cache1, in zone eu-1a | cache1:11211 | 1 |
| ` + "`[::1]:11212`" + ` | [::1]:11212 | [::1]:11212 | 1 |
| ` + "`unix:/run/memcached.sock`" + ` | unix:/run/memcached.sock | the socket | 1 |
| ` + "`10.0.0.1:11211:1 blue`" + ` (twemproxy) | blue | 10.0.0.1:11211 | 1 |

Logs, metrics and errors show names. [servers.md](servers.md) explains them, names to look up (` + "`dns+`, `srv+`, `k8s+`" + `), and what moves when servers change. In the file the list may hold
strings or mappings:

    servers:
      - cache1:11211
      - {name: blue, address: "10.0.0.1:11212", weight: 3, zone: eu-1a}

To move from another program
with a warm cache, set ` + "`ring`" + ` and ` + "`hash`" + ` as it placed the keys ([routes.md](routes.md) is about twemproxy):

| before | ring | hash |
|---|---|---|
| libmemcached, ` + "`KETAMA_WEIGHTED`" + ` | libmemcached-weighted | md5 |
| libmemcached, ` + "`KETAMA`" + ` | libmemcached | as its ` + "`HASH`" + ` (its default is one_at_a_time) |
`

// Documentation returns docs/configuration.md: the rules, and a table of all options.
func Documentation() string {
	var b strings.Builder
	b.WriteString(docsHead)
	group := ""
	for i := range Options {
		o := &Options[i]
		if o.Group != group {
			group = o.Group
			fmt.Fprintf(&b, "\n## %s\n\n| flag | default | accepted | meaning |\n|---|---|---|---|\n", group)
		}
		flags, def := o.flags(), "none: must be given, or pools"
		switch {
		case o.PoolOnly:
			flags, def = "pools: NAME: "+o.Name+":", "none"
		case o.InFileOnly():
			flags, def = o.Name+":", "none"
		case o.Default != "":
			def = "`" + o.Default + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", flags, def, cell(o.Accepts()), cell(o.Help))
	}
	return b.String()
}

// cell escapes text for a Markdown table cell.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "*", `\*`, "[", `\[`, "]", `\]`).Replace(text)
}
