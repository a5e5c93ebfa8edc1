package main

func word(words ...string) schema { return schema{"type": "string", "enum": words} }

func items(s schema) schema { return schema{"type": "array", "items": s} }

func integer(least, most int) schema {
	return schema{"type": "integer", "minimum": least, "maximum": most}
}

// refine returns the schemas that defaults don't imply, by the path of the value in the charts that have it.
func refine() map[string]schema {
	quantities := schema{"type": "object", "additionalProperties": schema{"type": []string{"string", "number", "null"}}}
	resources := closed(map[string]any{
		"limits": quantities, "requests": quantities,
		"claims": items(schema{"type": "object"}),
	})
	probe := map[string]any{}
	for _, field := range []string{
		"initialDelaySeconds", "periodSeconds", "timeoutSeconds", "failureThreshold", "successThreshold",
		"terminationGracePeriodSeconds",
	} {
		probe[field] = integer(0, 3600)
	}
	named := items(schema{"type": "object", "required": []string{"name"}})
	toleration := items(closed(map[string]any{
		"key": schema{"type": "string"}, "operator": word("Equal", "Exists", "Lt", "Gt"),
		"value":  schema{"type": "string"},
		"effect": word("NoSchedule", "PreferNoSchedule", "NoExecute"), "tolerationSeconds": schema{"type": "integer"},
	}))
	spread := items(schema{"type": "object", "required": []string{"topologyKey", "maxSkew", "whenUnsatisfiable"}})
	evictable := schema{"type": []string{"integer", "string"}, "pattern": "^(100|[1-9]?[0-9])%$", "minimum": 0}
	left := schema{"type": []string{"integer", "string"}, "pattern": "^((100|[1-9]?[0-9])%)?$", "minimum": 1}
	pullPolicy := word("Always", "IfNotPresent", "Never")
	digest := schema{"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"}
	tag := schema{"type": "string", "pattern": "^([A-Za-z0-9_][A-Za-z0-9._-]{0,127})?$"}
	port := integer(1, 65535)
	mounts := items(schema{"type": "object", "required": []string{"name", "mountPath"}})
	aliases := items(closed(map[string]any{
		"ip":        schema{"type": "string"},
		"hostnames": items(schema{"type": "string"}),
	}, "ip"))
	strings := items(schema{"type": "string"})
	// null removes what an earlier values file has set.
	texts := schema{"type": "object", "additionalProperties": schema{"type": []string{"string", "null"}}}

	refined := map[string]schema{
		"kind":           word("Deployment", "DaemonSet"),
		"onConfigChange": word("reload", "restart"),
		"config":         options(),
		"servers":        items(schema{"type": "string", "minLength": 1}),
		"adminPort":      port,

		"imagePullSecrets": items(closed(map[string]any{"name": schema{"type": "string"}}, "name")),
		"dnsPolicy":        word("", "ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"),

		"service.type":                     word("ClusterIP", "NodePort", "LoadBalancer"),
		"service.port":                     port,
		"service.nodePort":                 integer(0, 65535),
		"service.internalTrafficPolicy":    word("", "Cluster", "Local"),
		"service.externalTrafficPolicy":    word("", "Cluster", "Local"),
		"service.loadBalancerSourceRanges": strings,
		"service.labels":                   texts,
		"service.annotations":              texts,

		"autoscaling.minReplicas": integer(1, 10000),
		"autoscaling.maxReplicas": integer(1, 10000),
		"autoscaling.metrics":     items(schema{"type": "object", "required": []string{"type"}}),
		"keda.maxReplicas":        integer(1, 10000),
		"keda.triggers":           items(schema{"type": "object", "required": []string{"type", "metadata"}}),

		"socketDirectory":                    {"type": "string", "pattern": "^(/[^:]*)?$"},
		"replicaCount":                       {"type": []string{"integer", "string"}, "pattern": "^$", "minimum": 0},
		"podDisruptionBudget.maxUnavailable": evictable,
		"podDisruptionBudget.minAvailable":   left,

		"metrics.prometheusRule.alertLabels": texts,

		"extraArgs":       strings,
		"extraContainers": named,
		"extraObjects":    items(schema{"type": []string{"object", "string"}}),

		"serviceAccount.annotations": texts,
		"commonLabels":               texts,
		"commonAnnotations":          texts,

		"memcached.replicas":  integer(1, 500),
		"memcached.memoryMiB": integer(1, 1<<30),
		"memcached.threads":   integer(1, 1024),
		"memcached.port":      port,
		"memcached.updateStrategy": closed(map[string]any{
			"type": word("RollingUpdate", "OnDelete"), "rollingUpdate": schema{"type": "object"},
		}, "type"),
		"memcached.maxItemSize":                        {"type": []string{"string", "integer"}},
		"memcached.extraArgs":                          strings,
		"memcached.podDisruptionBudget.maxUnavailable": evictable,
		"memcached.podDisruptionBudget.minAvailable":   left,

		"target.host":    {"type": "string", "minLength": 1},
		"target.port":    port,
		"generator":      word("memtier", "mcmwlab"),
		"command":        strings,
		"test.resources": resources,
		"jobs": items(closed(map[string]any{
			"name":        schema{"type": "string", "pattern": "^[a-z0-9]([a-z0-9-]{0,18}[a-z0-9])?$"},
			"args":        strings,
			"command":     strings,
			"parallelism": integer(1, 1000),
		}, "name")),
	}
	for _, probed := range []string{"startup", "liveness", "readiness"} {
		refined["probes."+probed] = closed(probe)
	}
	for _, pods := range []string{"", "memcached."} {
		refined[pods+"extraEnv"] = named
		refined[pods+"extraVolumes"] = named
		refined[pods+"extraVolumeMounts"] = mounts
		refined[pods+"initContainers"] = named
		refined[pods+"hostAliases"] = aliases
	}
	for _, pods := range []string{"", "memcached."} {
		refined[pods+"resources"] = resources
		refined[pods+"tolerations"] = toleration
		refined[pods+"topologySpread"] = spread
		if pods == "" {
			refined["topologySpreadConstraints"] = spread
		}
		refined[pods+"nodeSelector"] = texts
		refined[pods+"podLabels"] = texts
		refined[pods+"podAnnotations"] = texts
		refined[pods+"image.pullPolicy"] = pullPolicy
		refined[pods+"image.digest"] = digest
		refined[pods+"image.tag"] = tag
	}
	for _, object := range []string{"serviceMonitor", "podMonitor", "prometheusRule", "dashboards"} {
		refined["metrics."+object+".labels"] = texts
		refined["metrics."+object+".annotations"] = texts
	}
	return refined
}
