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
	"`values-production.yaml`, `values-minimal.yaml` and `values-azure-asl.yaml`" + `
are values to start from.

| value | default | meaning |
|---|---|---|
`

// longestDefault is the longest default that the table shows, bytes.
const longestDefault = 60

// readmeOf returns the chart's README.md.
func readmeOf(values []*value) string {
	var b strings.Builder
	b.WriteString(readmeHead)
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
