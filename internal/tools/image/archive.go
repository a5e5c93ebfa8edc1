package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"strings"
)

// Media types of the OCI image specification, version 1.1.
const (
	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// nobody is the user and the group of the process, as in the Dockerfile.
const nobody = "65534:65534"

// archive is an image of one binary, for one or more platforms.
type archive struct {
	name       string // with the tag
	entrypoint string // the binary's name
	cmd, env   []string
	binaries   []binary
}

// binary is a static binary for a platform.
type binary struct {
	system, architecture string
	contents             []byte
}

// platform says where an image runs.
type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

// descriptor refers to a blob.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    *platform         `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// manifest is the manifest of an image for a platform, or with Manifests the index of several.
type manifest struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Config        *descriptor  `json:"config,omitempty"`
	Layers        []descriptor `json:"layers,omitempty"`
	Manifests     []descriptor `json:"manifests,omitempty"`
}

// imageConfig is how a container of an image runs.
type imageConfig struct {
	platform
	Config struct {
		User       string   `json:"User"`
		Env        []string `json:"Env,omitempty"`
		Entrypoint []string `json:"Entrypoint"`
		Cmd        []string `json:"Cmd,omitempty"`
		WorkingDir string   `json:"WorkingDir"`
	} `json:"config"`
	RootFS struct {
		Type    string   `json:"type"`
		DiffIDs []string `json:"diff_ids"`
	} `json:"rootfs"`
}

// qualified returns the name under which containerd keeps an image: names without a registry belong to Docker's, as Kubernetes has it, too.
func qualified(name string) string {
	first, _, path := strings.Cut(name, "/")
	switch {
	case path && (strings.ContainsAny(first, ".:") || first == "localhost"):
		return name
	case path:
		return "docker.io/" + name
	default:
		return "docker.io/library/" + name
	}
}

// layout is an OCI layout while it is written to a tar archive.
type layout struct {
	tar *tar.Writer
	err error // the first one
}

// file adds a file of the archive.
func (l *layout) file(name string, contents []byte) {
	if l.err == nil {
		l.err = l.tar.WriteHeader(&tar.Header{Name: name, Mode: 0o444, Size: int64(len(contents)), Typeflag: tar.TypeReg})
	}
	if l.err == nil {
		_, l.err = l.tar.Write(contents)
	}
}

// blob adds contents under its digest.
func (l *layout) blob(mediaType string, contents []byte) descriptor {
	d := descriptor{MediaType: mediaType, Digest: digest(contents), Size: len(contents)}
	l.file("blobs/"+strings.Replace(d.Digest, ":", "/", 1), contents)
	return d
}

// document adds a JSON document.
func (l *layout) document(mediaType string, v any) descriptor {
	text, err := json.Marshal(v)
	if l.err == nil {
		l.err = err
	}
	return l.blob(mediaType, text)
}

func digest(contents []byte) string {
	sum := sha256.Sum256(contents)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// layer returns a file system with one executable, packed and not. Times are those of 1970, so that the bytes depend on the file alone.
func layer(name string, contents []byte) (packed, plain []byte, err error) {
	var tarred, zipped bytes.Buffer
	l := layout{tar: tar.NewWriter(&tarred)}
	l.err = l.tar.WriteHeader(&tar.Header{Name: name, Mode: 0o555, Size: int64(len(contents)), Typeflag: tar.TypeReg})
	if l.err == nil {
		_, l.err = l.tar.Write(contents)
	}
	if l.err == nil {
		l.err = l.tar.Close()
	}
	if l.err != nil {
		return nil, nil, l.err
	}
	z, err := gzip.NewWriterLevel(&zipped, gzip.BestCompression)
	if err != nil {
		return nil, nil, err
	}
	if _, err := z.Write(tarred.Bytes()); err != nil {
		return nil, nil, err
	}
	if err := z.Close(); err != nil {
		return nil, nil, err
	}
	return zipped.Bytes(), tarred.Bytes(), nil
}

// write writes the archive and returns the size of the layers that a node pulls at most, bytes.
func (a *archive) write(w io.Writer) (size int, err error) {
	l := layout{tar: tar.NewWriter(w)}
	l.file("oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`))
	images := manifest{SchemaVersion: 2, MediaType: typeIndex}
	for _, b := range a.binaries {
		packed, plain, err := layer(a.entrypoint, b.contents)
		if err != nil {
			return 0, err
		}
		size = max(size, len(packed))
		on := platform{Architecture: b.architecture, OS: b.system}
		var c imageConfig
		c.platform = on
		c.Config.User, c.Config.Env, c.Config.WorkingDir = nobody, a.env, "/"
		c.Config.Entrypoint, c.Config.Cmd = []string{"/" + a.entrypoint}, a.cmd
		c.RootFS.Type, c.RootFS.DiffIDs = "layers", []string{digest(plain)}
		config := l.document(typeConfig, c)
		image := l.document(typeManifest, manifest{
			SchemaVersion: 2, MediaType: typeManifest, Config: &config, Layers: []descriptor{l.blob(typeLayer, packed)},
		})
		image.Platform = &on
		images.Manifests = append(images.Manifests, image)
	}
	root := images.Manifests[0]
	if len(images.Manifests) > 1 {
		root = l.document(typeIndex, images)
	}
	_, tag, _ := strings.Cut(a.name[strings.LastIndex(a.name, "/")+1:], ":")
	root.Annotations = map[string]string{"io.containerd.image.name": qualified(a.name), "org.opencontainers.image.ref.name": tag}
	index, err := json.Marshal(manifest{SchemaVersion: 2, MediaType: typeIndex, Manifests: []descriptor{root}})
	if err != nil {
		return 0, err
	}
	l.file("index.json", index)
	if l.err == nil {
		l.err = l.tar.Close()
	}
	return size, l.err
}
