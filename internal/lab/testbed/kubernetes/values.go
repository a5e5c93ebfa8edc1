package kubernetes

import (
	"encoding/json"
	"fmt"
	"strconv"

	"mcmw/internal/lab/experiment"
	"mcmw/internal/lab/testbed"
)

// tree is a mapping of the chart's values.
type tree map[string]any

// text returns the values as a file of them.
func (t tree) text() string {
	text, err := json.Marshal(t) // which is YAML
	if err != nil {
		panic(err) // it holds texts, numbers and truth values
	}
	return string(text)
}

// memoryBeside is the least memory that a server needs beside its items, MiB.
const memoryBeside = 128

// standardValues go before those of the files: what the points need room for, at the least. loads is how many load pods there are to be.
func standardValues(serverMemory, loads int) tree {
	return tree{
		"resources": tree{"limits": tree{"memory": "1Gi"}},
		"memcached": tree{"resources": tree{"limits": tree{"memory": fmt.Sprintf("%dMi", serverMemory+serverMemory/4+memoryBeside)}}},
		"loadgen":   tree{"replicas": loads},
	}
}

// loadValues are those of the release of the load pods.
func loadValues() tree {
	return tree{
		"replicas":            0,
		"autoscaling":         tree{"enabled": false},
		"keda":                tree{"enabled": false},
		"podDisruptionBudget": tree{"enabled": false},
		"metrics":             noMonitoring,
		"memcached":           tree{"enabled": false},
		"servers":             []string{"127.0.0.1:11211"}, // nobody asks it
		"loadgen":             tree{"enabled": true, "generator": "mcmwlab", "command": []string{}, "jobs": []string{}},
	}
}

// pointValues are those of the release that a point wants.
func pointValues(v experiment.Values) tree {
	return tree{
		"kind":                "Deployment",
		"replicas":            v.Int(experiment.Middlewares),
		"autoscaling":         tree{"enabled": false},
		"keda":                tree{"enabled": false},
		"podDisruptionBudget": tree{"enabled": false},
		"metrics":             noMonitoring,
		// Nobody uses the Service, so that a pod that is to end needn't wait until no new clients come.
		"drain": tree{"preStopSleepSeconds": 0},
		"config": tree{
			"workers": v.Int(experiment.Workers), "depth": v.Int(experiment.Depth), "replicas": v[experiment.Replicas],
			"sharded": v[experiment.Sharded] == "true", "pool": v[experiment.Pool], "hot-keys": v[experiment.HotKeys], "log-level": "warn",
			// The end of a connection would be an error of the load.
			"max-connection-age": "0s",
		},
		"adminPort": adminPort, "networkPolicy": tree{"enabled": false},
		"extraArgs": append(testbed.StatisticsArgs(), v.Flags(experiment.MiddlewareFlags)...),
		"memcached": tree{
			"enabled": true, "port": serverPort, "replicas": v.Int(experiment.Servers), "threads": v.Int(experiment.ServerThreads), "memoryMiB": v.Int(experiment.ServerMemory),
			"maxConnections": testbed.ServerConnections(v), "minReadySeconds": 0, "gracePeriodSeconds": 1, "extraArgs": v.Flags(experiment.ServerFlags),
			"podDisruptionBudget": tree{"enabled": false},
		},
		"servers": []string{},
		"loadgen": tree{"enabled": false, "jobs": []string{}},
	}
}

// noMonitoring leaves out what monitoring needs: objects of kinds that the cluster may not know.
var noMonitoring = tree{
	"serviceMonitor": tree{"enabled": false}, "podMonitor": tree{"enabled": false}, "prometheusRule": tree{"enabled": false}, "dashboards": tree{"enabled": false},
}

// largest returns the largest value that the points have of a setting that is a whole number.
func largest(points []experiment.Point, setting string) (most int) {
	for _, p := range points {
		if n, err := strconv.Atoi(p.Values[setting]); err == nil {
			most = max(most, n)
		}
	}
	return most
}
