package kubernetes

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"mcmw/lab/experiment"
	"mcmw/lab/testbed"
)

// tree is a mapping of the chart's values.
type tree map[string]any

// text returns the values as the text of a file.
func (t tree) text() string {
	text, err := json.Marshal(t) // JSON is YAML
	if err != nil {
		panic(err) // impossible: t has only strings, numbers and booleans
	}
	return string(text)
}

// memoryBeside is the least memory that a server needs in addition to its items, MiB.
const memoryBeside = 128

// standardValues are the values that precede those of the files: room for the largest point. loads is the number of
// load pods.
func standardValues(serverMemory, loads int) tree {
	return tree{
		"resources": tree{"limits": tree{"memory": "1Gi"}},
		"memcached": tree{"resources": tree{"limits": tree{"memory": fmt.Sprintf("%dMi",
			serverMemory+serverMemory/4+memoryBeside)}}},
		"loadgen": tree{"replicas": loads},
	}
}

// loadValues are the values of the release of the load pods.
func loadValues() tree {
	return withFixed(tree{
		"replicas":  0,
		"memcached": tree{"enabled": false},
		"servers":   []string{"127.0.0.1:11211"}, // not used
		"loadgen":   tree{"enabled": true, "generator": "mcmwlab", "command": []string{}, "jobs": []string{}},
	})
}

// pointValues are the values of the release for a point.
func pointValues(v experiment.Values) tree {
	// The load would treat the end of a connection as an error.
	config := tree{"log-level": "warn", "max-connection-age": "0s"}
	for _, s := range experiment.DeploymentSettings {
		if text := v[s.Name]; s.Program == experiment.Mcmw && text != experiment.AsDefault {
			config[strings.Trim(s.Flag, "-=")] = s.Value(text)
		}
	}
	return withFixed(tree{
		"kind":     "Deployment",
		"replicas": v.Int(experiment.Middlewares),
		// Nothing uses the Service, so a pod need not wait for the end of new connections before it ends.
		"drain":  tree{"preStopSleepSeconds": 0},
		"config": config, "adminPort": adminPort, "networkPolicy": tree{"enabled": false},
		"extraArgs": append(testbed.StatisticsArgs(), v.Flags(experiment.MiddlewareFlags)...),
		"memcached": tree{
			"enabled": true, "port": serverPort, "replicas": v.Int(experiment.Servers),
			"threads": v.Int(experiment.ServerThreads), "memoryMiB": v.Int(experiment.ServerMemory),
			"maxConnections": testbed.ServerConnections(v), "minReadySeconds": 0, "gracePeriodSeconds": 1,
			"extraArgs":           v.Flags(experiment.ServerFlags),
			"podDisruptionBudget": tree{"enabled": false},
		},
		"servers": []string{},
		"loadgen": tree{"enabled": false, "jobs": []string{}},
	})
}

// withFixed adds the values that both releases have. A fixed number of pods runs. Monitoring is left out: it needs
// kinds of objects that the cluster may not have.
func withFixed(values tree) tree {
	off := tree{"enabled": false}
	maps.Copy(values, tree{
		"autoscaling": off, "keda": off, "podDisruptionBudget": off,
		"metrics": tree{"serviceMonitor": off, "podMonitor": off, "prometheusRule": off, "dashboards": off},
	})
	return values
}

// largest returns the largest value that the points have for a whole-number setting.
func largest(points []experiment.Point, setting string) (most int) {
	for _, p := range points {
		most = max(most, p.Values.Int(setting))
	}
	return most
}
