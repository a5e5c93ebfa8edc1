package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"

	"mcmw/test/cluster/image"
	"mcmw/test/cluster/node"
)

// tag is the tag of all images built here. None is ever pulled: there is no registry.
const tag = "dev"

// chartTags returns the default tags of the chart in the source at root, by the images' names.
func chartTags(root string) (map[string]string, error) {
	var chart struct {
		AppVersion string `yaml:"appVersion"`
	}
	var values struct {
		Memcached struct{ Image struct{ Tag string } }
	}
	for file, into := range map[string]any{"Chart.yaml": &chart, "values.yaml": &values} {
		text, err := os.ReadFile(filepath.Join(root, "deploy/helm/mcmw", file))
		if err != nil {
			return nil, err
		}
		if err := yaml.Unmarshal(text, into); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	return map[string]string{
		"mcmw": chart.AppVersion, "mcmwlab": chart.AppVersion,
		"memcached": values.Memcached.Image.Tag,
	}, nil
}

// newMemcached returns the path of a memcached that supports writers several, which the chart sets.
func newMemcached() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	path := cmp.Or(os.Getenv("MCMW_MEMCACHED_NEW"), filepath.Join(cache, "mcmw", "memcached-trixie", "memcached"))
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("memcached 1.6.27 or later: %w: run .ci/deps", err)
	}
	return path, nil
}

// images returns the images that the tests run, with programs from the source at root, from Debian's packages and from
// the cache. Images of the chart also have its tags.
func images(c *node.Cluster, root, built string) ([]image.Image, error) {
	memcached, err := newMemcached()
	if err != nil {
		return nil, err
	}
	prometheus, err := exec.LookPath("prometheus")
	if err != nil {
		return nil, fmt.Errorf("%w: run .ci/deps cluster", err)
	}
	const nobody = "65534:65534"
	const library = "docker.io/library/"
	one := func(name, from, to string) image.Image {
		return image.Image{
			Name: library + name + ":" + tag, Files: []image.File{{From: from, To: to}},
			Entrypoint: []string{to}, User: nobody,
		}
	}
	mcmw := one("mcmw", filepath.Join(built, "mcmw"), "/mcmw")
	mcmw.Cmd, mcmw.Env = []string{"serve"}, []string{"MCMW_LISTEN=0.0.0.0:11311", "MCMW_ADMIN=0.0.0.0:9150"}
	server := one("memcached", memcached, "/usr/bin/memcached")
	// As in the official image, the first argument is the program.
	server.Entrypoint, server.Env, server.User = nil, []string{"PATH=/usr/bin"}, "11211:11211"
	all := []image.Image{
		mcmw,
		one("mcmwlab", filepath.Join(built, "mcmwlab"), "/mcmwlab"),
		server,
		one("prometheus", prometheus, "/usr/bin/prometheus"),
		one("prometheus-adapter", c.Program("adapter"), "/adapter"),
	}
	tags, err := chartTags(root)
	if err != nil {
		return nil, err
	}
	for _, i := range all[:len(tags)] {
		name := strings.TrimSuffix(strings.TrimPrefix(i.Name, library), ":"+tag)
		i.Name = library + name + ":" + tags[name]
		all = append(all, i)
	}
	return all, nil
}

// loadImages builds mcmw from the source, and imports its image and the other images of the tests on the cluster's
// node.
func loadImages(ctx context.Context, c *node.Cluster, progress io.Writer) error {
	root, err := node.ModuleRoot()
	if err != nil {
		return err
	}
	built, err := os.MkdirTemp("", "mcmw-images-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(built)
	for _, module := range []string{".", "lab"} {
		build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", built+"/", "./cmd/...")
		build.Dir, build.Env = filepath.Join(root, module), append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("compiling %s: %w: %s", module, err, out)
		}
	}
	all, err := images(c, root, built)
	if err != nil {
		return err
	}
	for _, i := range all {
		var archive bytes.Buffer
		if err := i.Write(&archive); err != nil {
			return fmt.Errorf("the image %s: %w", i.Name, err)
		}
		fmt.Fprintf(progress, "image %s, %.1f MB\n", i.Name, float64(archive.Len())/1e6)
		cmd, err := c.Command(ctx, "ctr", node.ImportArgs()...)
		if err != nil {
			return err
		}
		cmd.Stdin = &archive
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("importing %s: %w: %s", i.Name, err, out)
		}
	}
	return nil
}
