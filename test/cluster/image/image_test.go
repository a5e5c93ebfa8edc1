package image

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// contents returns the files of a tar archive.
func contents(t *testing.T, archive []byte) map[string]string {
	t.Helper()
	files := map[string]string{}
	r := tar.NewReader(bytes.NewReader(archive))
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

	files := contents(t, archive.Bytes())
	var manifest []struct {
		Config           string
		RepoTags, Layers []string
	}
	require.NoError(t, json.Unmarshal([]byte(files["manifest.json"]), &manifest))
	require.Len(t, manifest, 1)
	assert.Equal(t, []string{"docker.io/library/test:1"}, manifest[0].RepoTags)
	var config struct {
		Config struct {
			Cmd, Env []string
			User     string
		}
		Rootfs struct {
			DiffIDs []string `json:"diff_ids"`
		}
	}
	require.NoError(t, json.Unmarshal([]byte(files[manifest[0].Config]), &config))
	assert.Equal(t, "65534:65534", config.Config.User)
	layer := files[manifest[0].Layers[0]]
	digest := sha256.Sum256([]byte(layer))
	assert.Equal(t, []string{"sha256:" + hex.EncodeToString(digest[:])}, config.Rootfs.DiffIDs)

	inside := contents(t, []byte(layer))
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
