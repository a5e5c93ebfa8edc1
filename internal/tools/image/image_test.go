package main

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/stretchr/testify/require"

	"mcmw/internal/tools/image/archive"
)

// open returns the index of an OCI archive. The library has checked everything that it refers to.
func open(t *testing.T, written []byte) v1.ImageIndex {
	t.Helper()
	dir := t.TempDir()
	unpack(t, bytes.NewReader(written), func(header *tar.Header, contents []byte) {
		path := filepath.Join(dir, header.Name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, contents, 0o600))
	})
	require.FileExists(t, filepath.Join(dir, "oci-layout"))
	index, err := layout.ImageIndexFromPath(dir)
	require.NoError(t, err)
	require.NoError(t, validate.Index(index))
	return index
}

// unpack calls each for every file of a tar archive.
func unpack(t *testing.T, r io.Reader, each func(*tar.Header, []byte)) {
	t.Helper()
	for files := tar.NewReader(r); ; {
		header, err := files.Next()
		if err == io.EOF {
			return
		}
		require.NoError(t, err)
		require.Zero(t, header.ModTime.Unix(), header.Name)
		contents, err := io.ReadAll(files)
		require.NoError(t, err)
		each(header, contents)
	}
}

// descriptors returns the descriptors in an index.
func descriptors(t *testing.T, index v1.ImageIndex) []v1.Descriptor {
	t.Helper()
	manifest, err := index.IndexManifest()
	require.NoError(t, err)
	return manifest.Manifests
}

func write(t *testing.T, args ...string) (written []byte, stdout string) {
	t.Helper()
	dir := t.TempDir()
	out := filepath.Join(dir, "image.tar")
	all := []string{
		"-name", "mcmw:1.2.3", "-entrypoint", "mcmw", "-cmd", "serve", "-env", "A=1", "-env", "B=2",
		"-out", out,
	}
	for _, platform := range args {
		path := filepath.Join(dir, strings.ReplaceAll(platform, "/", "-"))
		require.NoError(t, os.WriteFile(path, []byte("binary for "+platform), 0o600))
		all = append(all, platform+"="+path)
	}
	var said bytes.Buffer
	require.NoError(t, run(all, &said))
	written, err := os.ReadFile(out)
	require.NoError(t, err)
	return written, said.String()
}

// checkImage checks that an image has the binary for a platform, and runs it as nobody.
func checkImage(t *testing.T, index v1.ImageIndex, digest v1.Hash, architecture string) {
	t.Helper()
	image, err := index.Image(digest)
	require.NoError(t, err)
	config, err := image.ConfigFile()
	require.NoError(t, err)
	require.Equal(t, &v1.Platform{Architecture: architecture, OS: "linux"}, config.Platform())
	require.Equal(t, v1.Config{
		Entrypoint: []string{"/mcmw"}, Cmd: []string{"serve"}, Env: []string{"A=1", "B=2"}, User: "65534:65534",
		WorkingDir: "/",
	}, config.Config)

	layers, err := image.Layers()
	require.NoError(t, err)
	require.Len(t, layers, 1)
	plain, err := layers[0].Uncompressed()
	require.NoError(t, err)
	files := map[string]string{}
	unpack(t, plain, func(header *tar.Header, contents []byte) {
		require.EqualValues(t, 0o555, header.Mode)
		files[header.Name] = string(contents)
	})
	require.Equal(t, map[string]string{"mcmw": "binary for linux/" + architecture}, files)
}

func TestTheArchiveHoldsTheBinaryAndHowItRuns(t *testing.T) {
	written, said := write(t, "linux/amd64")
	require.Regexp(t, `image\.tar: mcmw:1\.2\.3, 0\.0 MiB\n$`, said)
	index := open(t, written)
	images := descriptors(t, index)
	require.Len(t, images, 1)
	require.Equal(t, types.OCIManifestSchema1, images[0].MediaType)
	require.Equal(t, "docker.io/library/mcmw:1.2.3", images[0].Annotations["io.containerd.image.name"])
	require.Equal(t, "1.2.3", images[0].Annotations["org.opencontainers.image.ref.name"])
	checkImage(t, index, images[0].Digest, "amd64")
}

func TestAnArchiveForSeveralPlatformsHasAnImageForEach(t *testing.T) {
	written, _ := write(t, "linux/amd64", "linux/arm64")
	index := open(t, written)
	root := descriptors(t, index)
	require.Len(t, root, 1)
	require.Equal(t, types.OCIImageIndex, root[0].MediaType)
	platforms, err := index.ImageIndex(root[0].Digest)
	require.NoError(t, err)
	images := descriptors(t, platforms)
	require.Len(t, images, 2)
	for i, architecture := range []string{"amd64", "arm64"} {
		require.Equal(t, &v1.Platform{Architecture: architecture, OS: "linux"}, images[i].Platform)
		checkImage(t, platforms, images[i].Digest, architecture)
	}
}

func TestEqualBinariesMakeEqualArchives(t *testing.T) {
	first, _ := write(t, "linux/amd64")
	second, _ := write(t, "linux/amd64")
	require.Equal(t, first, second)
}

func TestNamesAreQualifiedAsContainerdDoes(t *testing.T) {
	for name, want := range map[string]string{
		"mcmw:1":                      "docker.io/library/mcmw:1",
		"team/mcmw:1":                 "docker.io/team/mcmw:1",
		"docker.io/team/mcmw:1":       "docker.io/team/mcmw:1",
		"registry.example.com/mcmw:1": "registry.example.com/mcmw:1",
		"localhost/mcmw:1":            "localhost/mcmw:1",
		"registry:5000/team/mcmw:1":   "registry:5000/team/mcmw:1",
	} {
		var written bytes.Buffer
		image, err := archive.Image(v1.ConfigFile{OS: "linux", Architecture: "amd64"}, nil)
		require.NoError(t, err)
		require.NoError(t, archive.Write(&written, name, image))
		require.Equal(t, want, descriptors(t, open(t, written.Bytes()))[0].Annotations["io.containerd.image.name"])
	}
}

func TestAWrongCommandLineSaysWhatIsExpected(t *testing.T) {
	for args, message := range map[string]string{
		"linux/amd64=main.go":                                "-name, -entrypoint and -out are required",
		"-name a:1 -entrypoint a -out x":                     "expected at least one binary",
		"-name a:1 -entrypoint a -out x main.go":             `"main.go" is not a binary: expected SYSTEM/ARCHITECTURE=FILE`,
		"-name a:1 -entrypoint a -out x linux/amd64=nowhere": "open nowhere: no such file",
		"-name a:1 -entrypoint a -out no/x linux/a=main.go":  "open no/x: no such file",
		"-name A:1 -entrypoint a -out x linux/a=main.go":     "repository can only contain",
	} {
		require.ErrorContains(t, run(strings.Fields(args), io.Discard), message, args)
	}
}
