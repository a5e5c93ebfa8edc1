package config

import (
	"fmt"
	"strings"
)

const docsHead = `# Configuration

<!-- Made from the table of options in internal/config by "go generate ./internal/config". Edit it there. -->

Every option has three spellings: a flag, an environment variable and a key in a YAML file.

| source | example | |
|---|---|---|
| flag | ` + "`--max-value 2m`" + ` | overrides everything |
| environment | ` + "`MCMW_MAX_VALUE=2m`" + ` | overrides the file; an empty variable counts as not set |
| file | ` + "`max-value: 2m`" + ` | read where ` + "`--config`" + ` or ` + "`MCMW_CONFIG`" + ` says; there is no file otherwise |
| default | | see the tables below |

A list that a source gives replaces the whole list of the source it overrides. Every value of every source is checked
at the start, also one that is overridden. What is not accepted, a key the file should not have, or a key it has twice, is
reported with the place where it stands, what was given and what is accepted, all at once; the exit code is then 2.

    mcmw config check --config mcmw.yaml     # OK, or everything that is wrong
    mcmw config print                        # a complete file with all defaults
    mcmw config print --config mcmw.yaml --show-origin

The last one ends every line with where its value comes from:

    workers: 64 # flag -t, --workers
    depth: 1 # mcmw.yaml:3
    queue: 4096 # env MCMW_QUEUE

Shell completion: ` + "`source <(mcmw completion bash)`" + ` (also zsh, fish and powershell).

## The short form

    mcmw serve -l 127.0.0.1 -p 11311 -t 64 -s true -m 127.0.0.1:11211 127.0.0.1:11212

` + "`-l`" + ` is the address to listen on, ` + "`-p`" + ` the port, ` + "`-t`" + ` the number of workers, ` + "`-s`" + ` whether multi-gets are split, ` + "`-m`" + `
the servers: arguments after the first are further servers.

## Servers

| form | name | address | weight |
|---|---|---|---|
| ` + "`cache1`" + ` | cache1 | cache1:11211 | 1 |
| ` + "`cache1:11212`" + ` | cache1:11212 | cache1:11212 | 1 |
| ` + "`blue=10.0.0.1:11212*3`" + ` | blue | 10.0.0.1:11212 | 3 |
| ` + "`[::1]:11212`" + ` | [::1]:11212 | [::1]:11212 | 1 |
| ` + "`unix:/run/memcached.sock`" + ` | unix:/run/memcached.sock | the socket | 1 |
| ` + "`10.0.0.1:11211:1 blue`" + ` (twemproxy) | blue | 10.0.0.1:11211 | 1 |

The name is what keys are hashed to, and what logs, metrics and errors say. Give servers names of their own if their
addresses may change: keys stay where they are as long as the names do. In the file the list may hold texts or mappings:

    servers:
      - cache1:11211
      - {name: blue, address: "10.0.0.1:11212", weight: 3}

To take over from another proxy or client with a warm cache, set ` + "`ring`" + ` and ` + "`hash`" + ` to what placed the keys so far:

| until now | ring | hash |
|---|---|---|
| twemproxy, ` + "`distribution: ketama`" + ` | twemproxy | as its ` + "`hash`" + ` (its default is fnv1a_64) |
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
			fmt.Fprintf(&b, "\n## %s\n\n| flag | environment | default | accepted | meaning |\n|---|---|---|---|---|\n", group)
		}
		def := "none: must be given"
		if o.Default != "" {
			def = "`" + o.Default + "`"
		}
		fmt.Fprintf(&b, "| `%s` | `%s` | %s | %s | %s |\n", o.flags(), o.Env(), def, cell(o.Accepts()), cell(o.Help))
	}
	return b.String()
}

// cell escapes text for a cell of a Markdown table.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "*", `\*`, "[", `\[`, "]", `\]`).Replace(text)
}
