// Image writes a container image with one static binary as an OCI archive, without Docker or network access:
//
//	image -name mcmw:0.1.0 -entrypoint mcmw -cmd serve -env MCMW_LISTEN=:11311 -out mcmw.tar linux/amd64=bin/mcmw [linux/arm64=...]
//
// Containerd loads it with `ctr --namespace k8s.io images import`, Podman and Docker (from version 25) with `load`.
// Equal binaries give equal archives. The image is like the Dockerfile's: one binary, which runs as the user nobody.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"mcmw/internal/tools/image/archive"
)

// nobody is the user and group of the process, as in the Dockerfile.
const nobody = "65534:65534"

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

// run writes the archive and prints a line about it.
func run(args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	var (
		name       = flags.String("name", "", "name and tag of the image")
		entrypoint = flags.String("entrypoint", "", "name of the binary in the image")
		out        = flags.String("out", "", "file to write")
		cmd, env   []string
	)
	add := func(to *[]string) func(string) error {
		return func(text string) error {
			*to = append(*to, text)
			return nil
		}
	}
	flags.Func("cmd", "default argument of the binary; may be repeated", add(&cmd))
	flags.Func("env", "environment variable NAME=VALUE; may be repeated", add(&env))
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch {
	case *name == "" || *entrypoint == "" || *out == "":
		return errors.New("-name, -entrypoint and -out are required")
	case flags.NArg() == 0:
		return errors.New("expected at least one binary, as linux/amd64=FILE")
	}
	var images []v1.Image
	for _, arg := range flags.Args() {
		platform, path, _ := strings.Cut(arg, "=")
		system, architecture, ok := strings.Cut(platform, "/")
		if !ok || path == "" {
			return fmt.Errorf("%q is not a binary: expected SYSTEM/ARCHITECTURE=FILE, such as linux/amd64=bin/mcmw",
				arg)
		}
		contents, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		image, err := archive.Image(v1.ConfigFile{
			OS: system, Architecture: architecture,
			Config: v1.Config{
				User: nobody, Env: env, Entrypoint: []string{"/" + *entrypoint}, Cmd: cmd,
				WorkingDir: "/",
			},
		}, []archive.File{{Path: *entrypoint, Mode: 0o555, Contents: contents}})
		if err != nil {
			return err
		}
		images = append(images, image)
	}
	var written bytes.Buffer
	if err := archive.Write(&written, *name, images...); err != nil {
		return err
	}
	if err := os.WriteFile(*out, written.Bytes(), 0o644); err != nil {
		return err
	}
	_, err := fmt.Fprintf(stdout, "%s: %s, %.1f MiB\n", *out, *name, float64(written.Len())/(1<<20))
	return err
}
