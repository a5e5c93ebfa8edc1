package kubernetes

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"
)

// readImages returns the images of mcmw and memcached in a manifest written by helm, by the names of their containers.
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
			return nil, fmt.Errorf("reading the chart's manifest: %w", err)
		}
		for _, c := range object.Spec.Template.Spec.Containers {
			if c.Name == "mcmw" || c.Name == "memcached" {
				images[c.Name] = "image " + c.Image
			}
		}
	}
}
