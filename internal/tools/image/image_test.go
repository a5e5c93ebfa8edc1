package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// unpack returns the files of a tar archive.
func unpack(t *testing.T, archive []byte) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		header, err := r.Next()
		if err == io.EOF {
			return files
		}
		require.NoError(t, err)
		require.True(t, header.ModTime.Unix() == 0, header.Name)
		files[header.Name], err = io.ReadAll(r)
		require.NoError(t, err)
	}
}

// follow decodes the blob that a descriptor refers to, and checks its digest and size.
func follow(t *testing.T, files map[string][]byte, d descriptor, into any) []byte {
	t.Helper()
	contents, ok := files["blobs/"+strings.Replace(d.Digest, ":", "/", 1)]
	require.True(t, ok, d.Digest)
	require.Equal(t, d.Digest, digest(contents))
	require.Len(t, contents, d.Size)
	if into != nil {
		require.NoError(t, json.Unmarshal(contents, into))
	}
	return contents
}

func write(t *testing.T, args ...string) (archive []byte, stdout string) {
	t.Helper()
	dir := t.TempDir()
	out := filepath.Join(dir, "image.tar")
	all := []string{"-name", "mcmw:1.2.3", "-entrypoint", "mcmw", "-cmd", "serve", "-env", "A=1", "-env", "B=2", "-out", out}
	for _, platform := range args {
		path := filepath.Join(dir, strings.ReplaceAll(platform, "/", "-"))
		require.NoError(t, os.WriteFile(path, []byte("binary for "+platform), 0o600))
		all = append(all, platform+"="+path)
	}
	var said bytes.Buffer
	require.NoError(t, run(all, &said))
	archive, err := os.ReadFile(out)
	require.NoError(t, err)
	return archive, said.String()
}

// checkImage checks that an image has the binary for a platform, and runs it as nobody.
func checkImage(t *testing.T, files map[string][]byte, image descriptor, architecture string) {
	t.Helper()
	var m manifest
	follow(t, files, image, &m)
	var c imageConfig
	follow(t, files, *m.Config, &c)
	require.Equal(t, platform{Architecture: architecture, OS: "linux"}, c.platform)
	require.Equal(t, []string{"/mcmw"}, c.Config.Entrypoint)
	require.Equal(t, []string{"serve"}, c.Config.Cmd)
	require.Equal(t, []string{"A=1", "B=2"}, c.Config.Env)
	require.Equal(t, nobody, c.Config.User)

	require.Len(t, m.Layers, 1)
	z, err := gzip.NewReader(bytes.NewReader(follow(t, files, m.Layers[0], nil)))
	require.NoError(t, err)
	plain, err := io.ReadAll(z)
	require.NoError(t, err)
	require.Equal(t, []string{digest(plain)}, c.RootFS.DiffIDs)
	require.Equal(t, map[string][]byte{"mcmw": []byte("binary for linux/" + architecture)}, unpack(t, plain))
}

func TestTheArchiveHoldsTheBinaryAndHowItRuns(t *testing.T) {
	archive, said := write(t, "linux/amd64")
	require.Regexp(t, `image\.tar: mcmw:1\.2\.3, 0\.0 MiB\n$`, said)
	files := unpack(t, archive)
	require.JSONEq(t, `{"imageLayoutVersion":"1.0.0"}`, string(files["oci-layout"]))
	var index manifest
	require.NoError(t, json.Unmarshal(files["index.json"], &index))
	require.Len(t, index.Manifests, 1)
	require.Equal(t, "docker.io/library/mcmw:1.2.3", index.Manifests[0].Annotations["io.containerd.image.name"])
	require.Equal(t, "1.2.3", index.Manifests[0].Annotations["org.opencontainers.image.ref.name"])
	checkImage(t, files, index.Manifests[0], "amd64")
}

func TestAnArchiveForSeveralPlatformsHasAnImageForEach(t *testing.T) {
	archive, _ := write(t, "linux/amd64", "linux/arm64")
	files := unpack(t, archive)
	var index, images manifest
	require.NoError(t, json.Unmarshal(files["index.json"], &index))
	require.Len(t, index.Manifests, 1)
	require.Equal(t, typeIndex, index.Manifests[0].MediaType)
	follow(t, files, index.Manifests[0], &images)
	require.Len(t, images.Manifests, 2)
	for i, architecture := range []string{"amd64", "arm64"} {
		require.Equal(t, &platform{Architecture: architecture, OS: "linux"}, images.Manifests[i].Platform)
		checkImage(t, files, images.Manifests[i], architecture)
	}
}

func TestTheSameBinaryMakesTheSameArchive(t *testing.T) {
	first, _ := write(t, "linux/amd64")
	second, _ := write(t, "linux/amd64")
	require.Equal(t, first, second)
}

func TestNamesAreQualifiedAsContainerdDoes(t *testing.T) {
	for name, want := range map[string]string{
		"mcmw:1":                      "docker.io/library/mcmw:1",
		"team/mcmw:1":                 "docker.io/team/mcmw:1",
		"registry.example.com/mcmw:1": "registry.example.com/mcmw:1",
		"localhost/mcmw:1":            "localhost/mcmw:1",
		"registry:5000/team/mcmw:1":   "registry:5000/team/mcmw:1",
	} {
		require.Equal(t, want, qualified(name))
	}
}

func TestAWrongCommandLineSaysWhatIsExpected(t *testing.T) {
	for args, message := range map[string]string{
		"linux/amd64=main.go":                                "-name, -entrypoint and -out are needed",
		"-name a:1 -entrypoint a -out x":                     "expected at least one binary",
		"-name a:1 -entrypoint a -out x main.go":             `"main.go" is no binary: expected SYSTEM/ARCHITECTURE=FILE`,
		"-name a:1 -entrypoint a -out x linux/amd64=nowhere": "open nowhere: no such file",
		"-name a:1 -entrypoint a -out no/x linux/a=main.go":  "open no/x: no such file",
	} {
		require.ErrorContains(t, run(strings.Fields(args), io.Discard), message, args)
	}
}
