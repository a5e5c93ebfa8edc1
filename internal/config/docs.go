package config

import (
	"fmt"
	"strings"
)

var docsHead = `# Configuration

<!-- Made from the table of options in internal/config by "go generate ./internal/config". Edit it there. -->

Every option can be set by a flag, an environment variable or a key in a YAML file. The tables list the flags.

| source | example | |
|---|---|---|
| flag | ` + "`--max-value 2m`" + ` | overrides everything |
| environment | ` + "`MCMW_MAX_VALUE=2m`" + ` | overrides the file; an empty variable counts as not set |
| file | ` + "`max-value: 2m`" + ` | the file named by ` + "`--config`" + ` or ` + "`MCMW_CONFIG`" +
	`; none by default |

Durations have a unit: us, ms, s, m, h. In sizes k, m and g multiply by 1024.
A list replaces the whole list of the source it overrides. Every value is checked, even one that is
overridden. All errors are reported at once; the exit code is then 2.

    mcmw config check --config mcmw.yaml     # OK, or every error
    mcmw config check --config next.yaml --against 127.0.0.1:9150     # what a reload would say
    mcmw config print                        # all options with their defaults, as a file
    mcmw config explain user:42 --config mcmw.yaml     # the servers of a key, and why
    mcmw config import nutcracker.yml        # translate a configuration of twemproxy or mcrouter
    mcmw config print --config mcmw.yaml --show-origin     # where each value comes from

Shell completion: ` + "`source <(mcmw completion bash)`" + ` (also zsh, fish and powershell).

## While mcmw runs

On SIGHUP, or when the file changes, mcmw reads flags, environment and file again. It applies a valid configuration as a whole,
under load; an invalid one changes nothing. The log has the changes or the errors. These options
can change while mcmw runs: ` + "`" + strings.Join(namesOf((*Option).Live), "`, `") + "`" + `.
A change of any other option is an error. The file counts as changed when its path leads to another file, or when its size or
modification time changes (` + "`watch-interval`" + `).

All mcmw instances in front of the same servers should show the same hashes in ` + "`mcmw_config_info`" + `.

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

Logs, metrics and errors show names. [servers.md](servers.md) explains names, servers that are looked up (` +
	"`dns+`, `srv+`, `k8s+`, `cluster+`" + `), and what moves when servers change. In the file the list may hold
strings or mappings:

    servers:
      - cache1:11211
      - {name: blue, address: "10.0.0.1:11212", weight: 3, zone: eu-1a}

To move from another program
with a warm cache, set ` + "`ring`" + ` and ` + "`hash`" +
	` to place the keys as it did ([routes.md](routes.md) is about twemproxy):

| before | ring | hash |
|---|---|---|
| libmemcached, ` + "`KETAMA_WEIGHTED`" + ` | libmemcached-weighted | md5 |
| libmemcached, ` + "`KETAMA`" + ` | libmemcached | as its ` + "`HASH`" + ` (its default is one_at_a_time) |
`

// brief removes what the head of the page says for all options.
var brief = strings.NewReplacer(sizeForm, "", durationForm, "")

// Documentation returns docs/configuration.md: the rules, and a table of all options.
func Documentation() string {
	var b strings.Builder
	b.WriteString(docsHead)
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
