// Package archive writes container images as OCI archives, without a registry and without a container engine.
package archive

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// File is a file or a directory of an image. It belongs to root and has no modification time, so that an image depends
// only on its files.
type File struct {
	Path     string // from the root, without a leading slash; a directory's path ends with a slash
	Mode     int64  // permissions and the sticky bit
	Contents []byte
}

// Image returns an image of one layer with the files, in their order. config has the platform, and how the image runs.
func Image(config v1.ConfigFile, files []File) (v1.Image, error) {
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	for _, f := range files {
		// A name that ends with a slash is the header of a directory.
		if err := add(w, f.Path, f.Mode, f.Contents); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	opener := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer.Bytes())), nil }
	packed, err := tarball.LayerFromOpener(opener, tarball.WithMediaType(types.OCILayer),
		tarball.WithCompressionLevel(gzip.DefaultCompression), tarball.WithCompressedCaching)
	if err != nil {
		return nil, err
	}
	config.RootFS.Type = "layers"
	image, err := mutate.ConfigFile(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1),
		types.OCIConfigJSON), &config)
	if err != nil {
		return nil, err
	}
	return mutate.AppendLayers(image, packed)
}

// Write writes an archive of an image for one platform, or of images for several, under a name with a tag. Equal images
// give equal bytes.
func Write(w io.Writer, imageName string, images ...v1.Image) error {
	tag, err := name.NewTag(imageName)
	if err != nil {
		return err
	}
	var root mutate.Appendable = images[0]
	if len(images) > 1 {
		platforms := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
		for _, image := range images {
			config, err := image.ConfigFile()
			if err != nil {
				return err
			}
			platforms = mutate.AppendManifests(platforms,
				mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: config.Platform()}})
		}
		root = platforms
	}
	index := mutate.AppendManifests(empty.Index,
		mutate.IndexAddendum{Add: root, Descriptor: v1.Descriptor{Annotations: map[string]string{
			// The library uses the host name of Docker's registry, containerd and Kubernetes its domain.
			"io.containerd.image.name":          strings.Replace(tag.Name(), name.DefaultRegistry+"/", "docker.io/", 1),
			"org.opencontainers.image.ref.name": tag.TagStr(),
		}}})

	dir, err := os.MkdirTemp("", "image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if _, err := layout.Write(dir, index); err != nil {
		return fmt.Errorf("writing the image's layout: %w", err)
	}
	return pack(w, os.DirFS(dir))
}

// pack writes the files of a file system as a tar archive, without their times and permissions.
func pack(w io.Writer, files fs.FS) error {
	archive := tar.NewWriter(w)
	err := fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		contents, err := fs.ReadFile(files, path)
		if err != nil {
			return err
		}
		return add(archive, path, 0o444, contents)
	})
	if err != nil {
		return err
	}
	return archive.Close()
}

// add adds a file, or a directory if the path ends with a slash.
func add(w *tar.Writer, path string, mode int64, contents []byte) error {
	if err := w.WriteHeader(&tar.Header{Name: path, Mode: mode, Size: int64(len(contents))}); err != nil {
		return err
	}
	_, err := w.Write(contents)
	return err
}
