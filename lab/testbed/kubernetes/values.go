package kubernetes

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"strings"

	"go.yaml.in/yaml/v3"

	"mcmw/lab/experiment"
	"mcmw/lab/testbed"
)

// tree is a mapping of the chart's values.
type tree map[string]any

// text returns the values as the text of a file.
func (t tree) text() string {
	text, err := json.Marshal(t) // JSON is YAML
	if err != nil {
		panic(err) // impossible: readValues has checked those of users
	}
	return string(text)
}

// memoryBeside is the least memory that a server needs in addition to its items, MiB.
const memoryBeside = 128

// standardValues are the values that precede those of the files: room for the largest point.
func standardValues(serverMemory int) tree {
	return tree{
		"resources": tree{"limits": tree{"memory": "1Gi"}},
		"memcached": tree{"resources": tree{"limits": tree{"memory": fmt.Sprintf("%dMi",
			serverMemory+serverMemory/4+memoryBeside)}}},
	}
}

// readValues returns the values of the chart in files, of which later ones replace earlier ones.
func readValues(files []string) (tree, error) {
	given := tree{}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("file of values for the chart: %w", err)
		}
		var values tree
		if err = yaml.Unmarshal(text, &values); err == nil {
			_, err = json.Marshal(values)
		}
		if err != nil {
			return nil, fmt.Errorf("file of values for the chart: %s: %w", path, err)
		}
		given = given.with(values)
	}
	return given, nil
}

// loadValues are the values of the release of the load pods, by default as many as loads. given are the values of the
// other chart, of which loadgen has those of this one; what else is said there of images also holds here.
func loadValues(loads int, given tree) tree {
	values := tree{"replicas": loads}
	for _, key := range []string{"global", "imagePullSecrets"} {
		if value, ok := given[key]; ok {
			values[key] = value
		}
	}
	if image, ok := given["image"].(tree); ok {
		if mcmw, ok := strings.CutSuffix(fmt.Sprint(image["repository"]), "mcmw"); ok {
			values["image"] = tree{"repository": mcmw + "mcmwlab"}
		}
	}
	if own, ok := given["loadgen"].(tree); ok {
		values = values.with(own)
	}
	delete(values, "enabled") // of the time when the load pods were in the other chart
	return values.with(tree{"generator": "mcmwlab", "command": []string{}, "jobs": []string{}})
}

// with returns t with values, which replace its own except for mappings, which are joined in turn.
func (t tree) with(values tree) tree {
	joined := maps.Clone(t)
	for key, value := range values {
		under, is := joined[key].(tree)
		if over, ok := value.(tree); ok && is {
			value = under.with(over)
		}
		joined[key] = value
	}
	return joined
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
	off := tree{"enabled": false}
	return tree{
		"kind":     "Deployment",
		"replicas": v.Int(experiment.Middlewares),
		// Nothing uses the Service, so a pod need not wait for the end of new connections before it ends.
		"drain":  tree{"preStopSleepSeconds": 0},
		"config": config, "adminPort": adminPort, "networkPolicy": tree{"enabled": false},
		"extraArgs": append(testbed.StatisticsArgs(), v.Flags(experiment.MiddlewareFlags)...),
		"memcached": tree{
			"enabled": true, "pools": []tree{}, "port": serverPort, "replicas": v.Int(experiment.Servers),
			"threads": v.Int(experiment.ServerThreads), "memoryMiB": v.Int(experiment.ServerMemory),
			"maxConnections": testbed.ServerConnections(v), "minReadySeconds": 0, "gracePeriodSeconds": 1,
			"extraArgs":           v.Flags(experiment.ServerFlags),
			"podDisruptionBudget": tree{"enabled": false},
		},
		"servers": []string{},
		// These are of the other release. Files of the time when it had this chart are accepted.
		"loadgen": tree{"enabled": false, "jobs": []string{}}, "tests": tree{"load": tree{"enabled": false}},
		// A fixed number of pods runs. Monitoring needs kinds of objects that the cluster may not have.
		"autoscaling": off, "keda": off, "podDisruptionBudget": off,
		"metrics": tree{"serviceMonitor": off, "podMonitor": off, "prometheusRule": off, "dashboards": off},
	}
}

// largest returns the largest value that the points have for a whole-number setting.
func largest(points []experiment.Point, setting string) (most int) {
	for _, p := range points {
		most = max(most, p.Values.Int(setting))
	}
	return most
}

// readImages returns the images of mcmw and memcached in a manifest written by helm, by the names of their containers.
func readImages(manifest []byte) (map[string]string, error) {
	images := map[string]string{}
	decoder := yaml.NewDecoder(bytes.NewReader(manifest))
	for {
		var object struct {
			Spec struct {
				Template struct {
					Spec struct {
						Containers []struct{ Name, Image string }
					}
				}
			}
		}
		switch err := decoder.Decode(&object); {
		case errors.Is(err, io.EOF):
			return images, nil
		case err != nil:
			return nil, fmt.Errorf("reading the chart's manifest: %w", err)
		}
		for _, c := range object.Spec.Template.Spec.Containers {
			if c.Name == "mcmw" || c.Name == "memcached" {
				images[c.Name] = "image " + c.Image
			}
		}
	}
}
