package kubernetes

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"
)

// readImages returns the images of the workloads of a manifest as helm writes it, by the names of their containers: those of mcmw and
// memcached, the load pods' program says its version itself.
func readImages(manifest []byte) (map[string]string, error) {
	images := map[string]string{}
	decoder := yaml.NewDecoder(bytes.NewReader(manifest))
	for {
		var object struct {
			Kind string
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
			return nil, fmt.Errorf("what the chart makes: %w", err)
		}
		for _, c := range object.Spec.Template.Spec.Containers {
			if c.Name == "mcmw" || c.Name == "memcached" {
				images[c.Name] = "image " + c.Image
			}
		}
	}
}
