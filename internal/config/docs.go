package config

import (
	"fmt"
	"strings"
)

var docsHead = `# Configuration

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

## While mcmw runs

SIGHUP, or a change of the file, has everything read again as at the start: flags and environment are what they were, the file is what it
is now. What is accepted is put in force as a whole, under load, and the log says what changed. What is not accepted changes
nothing: the log has the message that the start would have had. These options may change while mcmw runs: ` + "`" + strings.Join(live, "`, `") + "`" + `.
A file that changes another one changes nothing, either. The file counts as changed when what its path leads to is another
file, or has another size or time of writing, also by way of a symbolic link (a ConfigMap of Kubernetes), for two looks in
a row (` + "`watch-interval`" + `), so that a file that is still being written is not read.

` + "`stats`" + ` has the counts and a hash of the configuration in lines that start with ` + "`mcmw_config`" + `, ` + "`/metrics`" + ` in
` + "`mcmw_config_reloads_total{result}`" + ` and ` + "`mcmw_config_info{hash,servers}`" + `: middlewares in front of the same servers should have
the same hashes. Addresses of mcmw itself, its log and the like do not count.

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
| ` + "`dns+cache:11212*3`" + ` | each address of the name | the same, port 11212 | 3 |
| ` + "`srv+_memcache._tcp.memcached.ns.svc`" + ` | the host of each SRV record, shortened | the host's, the record's port | 1 |

The name is what keys are hashed to, and what logs, metrics and errors say. Give servers names of their own if their
addresses may change: keys stay where they are as long as the names do. [servers.md](servers.md) says how servers are found by
names of the DNS, and what moves when they change. In the file the list may hold texts or mappings:

    servers:
      - cache1:11211
      - {name: blue, address: "10.0.0.1:11212", weight: 3}

By default keys are placed by rendezvous hashing: every server holds its share of any set of keys within a few per cent. To take over from another proxy or client
with a warm cache, set ` + "`ring`" + ` and ` + "`hash`" + ` to what placed the keys so far:

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
