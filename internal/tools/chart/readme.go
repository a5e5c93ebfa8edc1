package main

import (
	"encoding/json"
	"fmt"
	"strings"
)

const readmeHead = `# The Helm chart of mcmw

<!-- Made from values.yaml by "go generate ./internal/tools/chart". -->

It needs Kubernetes 1.30 or later and Helm 3 or 4; the objects for Prometheus and KEDA need their operators.

    helm install mcmw deploy/helm/mcmw --wait                      # two mcmw behind a Service, and three memcached servers
    helm test mcmw
    helm upgrade mcmw deploy/helm/mcmw --values mine.yaml --wait   # a wrong configuration changes nothing
    helm uninstall mcmw                                            # and all that is cached

[docs/kubernetes.md](../../../docs/kubernetes.md) describes how to configure and monitor it; ` +
	"`values-production.yaml` and `values-minimal.yaml`" + `
are values to start from.
`

const readmeOfLoad = `# The Helm chart of a load on mcmw

<!-- Made from values.yaml by "go generate ./internal/tools/chart". -->

Pods in which loads are run, Jobs that run them, and a load as a Helm test, for mcmw of the [chart mcmw](../mcmw/README.md), or any memcached.

    helm install mcmw-load deploy/helm/mcmw-load --set target.host=mcmw   # prints commands that store and read keys
    helm test mcmw-load --logs

` + "`generator: mcmwlab`" + ` can log in where clients need a password. A Job runs once:

    jobs:
      - {name: reads, args: [--server, $(MCMW_HOST), --port, $(MCMW_PORT), --protocol, memcache_text, --ratio, "0:1"], parallelism: 3}

Where ` + "`networkPolicy`" + ` of the chart mcmw lists clients, they include ` +
	"`podSelector: {matchLabels: {app.kubernetes.io/name: mcmw-load}}`" + `.

` + "`mcmw-azure-asl.yaml` (for the chart mcmw) and `values-azure-asl.yaml`" + ` are sized like the virtual machines of the 2018 report.
` + "`kubectl label node NODE pool=servers` and `kubectl taint node NODE pool=servers:NoSchedule`" + ` assign a node to one of
their pools (` + "`servers`, `clients`, `middlewares`" + `).
`

// longestDefault is the longest default that the table shows, bytes.
const longestDefault = 60

// readmeOf returns the table of a chart's README.md.
func readmeOf(values []*value) string {
	var b strings.Builder
	b.WriteString("\n| value | default | meaning |\n|---|---|---|\n")
	for _, v := range leaves(values) {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", v.Path, defaultText(v), strings.ReplaceAll(v.Comment, "|", `\|`))
	}
	return b.String()
}

// defaultText returns a default as the table shows it.
func defaultText(v *value) string {
	var decoded any
	if err := v.Default.Decode(&decoded); err != nil {
		return ""
	}
	text, err := json.Marshal(decoded)
	switch {
	case err != nil, len(text) > longestDefault:
		return "see values.yaml"
	default:
		return "`" + string(text) + "`"
	}
}
