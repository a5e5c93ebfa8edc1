package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"os/exec"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// contents returns the files of a tar archive.
func contents(t *testing.T, archive io.Reader) map[string]string {
	t.Helper()
	files := map[string]string{}
	r := tar.NewReader(archive)
	for {
		header, err := r.Next()
		if err == io.EOF {
			return files
		}
		require.NoError(t, err)
		text, err := io.ReadAll(r)
		require.NoError(t, err)
		files[header.Name] = string(text)
	}
}

func TestAnImageHasItsProgramsTheirLibrariesAndItsConfiguration(t *testing.T) {
	shell, err := exec.LookPath("sh")
	require.NoError(t, err)
	i := Image{
		Name:  "docker.io/library/test:1",
		Files: []File{{From: shell, To: "/bin/sh"}, {To: "/etc/motd", Content: "hello\n"}},
		Cmd:   []string{"sh"}, Env: []string{"PATH=/bin"}, User: "65534:65534",
	}
	var archive, again bytes.Buffer
	require.NoError(t, i.Write(&archive))
	require.NoError(t, i.Write(&again))
	assert.Equal(t, archive.Bytes(), again.Bytes(), "the same files make the same image")

	files := contents(t, &archive)
	blob := func(d v1.Hash) string { return files["blobs/sha256/"+d.Hex] }
	index, err := v1.ParseIndexManifest(strings.NewReader(files["index.json"]))
	require.NoError(t, err)
	require.Len(t, index.Manifests, 1)
	assert.Equal(t, "docker.io/library/test:1", index.Manifests[0].Annotations["io.containerd.image.name"])
	manifest, err := v1.ParseManifest(strings.NewReader(blob(index.Manifests[0].Digest)))
	require.NoError(t, err)
	config, err := v1.ParseConfigFile(strings.NewReader(blob(manifest.Config.Digest)))
	require.NoError(t, err)
	assert.Equal(t, v1.Config{Cmd: i.Cmd, Env: i.Env, User: i.User}, config.Config)
	require.Len(t, manifest.Layers, 1)
	layer, err := gzip.NewReader(strings.NewReader(blob(manifest.Layers[0].Digest)))
	require.NoError(t, err)

	inside := contents(t, layer)
	assert.Equal(t, "hello\n", inside["etc/motd"])
	assert.Contains(t, inside["etc/passwd"], "nobody")
	assert.Contains(t, inside, "bin/sh")
	assert.Contains(t, inside, "tmp/")
	libraries, err := librariesOf(shell)
	require.NoError(t, err)
	for _, l := range libraries {
		assert.Contains(t, inside, l[1:])
	}
}

func TestAnImageOfAProgramThatIsNotThereIsAnError(t *testing.T) {
	err := Image{Name: "x:1", Files: []File{{From: "/does/not/exist", To: "/x"}}}.Write(io.Discard)
	require.ErrorContains(t, err, "/does/not/exist")
}
