// Package image writes container images from programs of this machine, without a registry and without a container engine.
//
// An image is one layer: the programs with the libraries that ldd names, and a list of users. It is written as the archive
// that `docker save` writes, which containerd imports.
package image

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

// Image says what goes into an image, and what runs in it.
type Image struct {
	Name       string // with a tag
	Files      []File
	Entrypoint []string // program and first arguments
	Cmd        []string // further arguments, unless others are given
	Env        []string // key=value
	User       string   // name or id:id; "" for root
}

// File is a program to put into an image, or a file with a content.
type File struct {
	From    string // path on this machine; "" for a file with Content
	To      string // absolute path in the image
	Content string
}

// passwd is the users of every image; programs that look up the one they run as find a name.
const passwd = "root:x:0:0:root:/:/sbin/nologin\nnobody:x:65534:65534:nobody:/:/sbin/nologin\n"

// Write writes the image as an archive. What is written is the same for the same files.
func (i Image) Write(w io.Writer) error {
	files := append([]File{{To: "/etc/passwd", Content: passwd}}, i.Files...)
	for _, f := range i.Files {
		libraries, err := librariesOf(f.From)
		if err != nil {
			return err
		}
		for _, l := range libraries {
			files = append(files, File{From: l, To: l})
		}
	}
	layer, err := layerOf(files)
	if err != nil {
		return err
	}
	digest := sha256.Sum256(layer)
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH,
		"os":           "linux",
		"config":       map[string]any{"Entrypoint": i.Entrypoint, "Cmd": i.Cmd, "Env": i.Env, "User": i.User},
		"rootfs":       map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + hex.EncodeToString(digest[:])}},
	})
	if err != nil {
		return err
	}
	const configFile, layerFile = "config.json", "layer.tar"
	manifest, err := json.Marshal([]map[string]any{{"Config": configFile, "RepoTags": []string{i.Name}, "Layers": []string{layerFile}}})
	if err != nil {
		return err
	}
	archive := tar.NewWriter(w)
	for _, part := range []struct {
		name string
		data []byte
	}{{layerFile, layer}, {configFile, config}, {"manifest.json", manifest}} {
		if err := archive.WriteHeader(&tar.Header{Name: part.name, Mode: 0o644, Size: int64(len(part.data))}); err != nil {
			return err
		}
		if _, err := archive.Write(part.data); err != nil {
			return err
		}
	}
	return archive.Close()
}

// layerOf returns a layer with the files, the folders they are in, and a /tmp for everybody.
func layerOf(files []File) ([]byte, error) {
	var out bytes.Buffer
	layer := tar.NewWriter(&out)
	dirs := map[string]bool{}
	var mkdir func(dir string) error
	mkdir = func(dir string) error {
		if dir == "/" || dirs[dir] {
			return nil
		}
		dirs[dir] = true
		if err := mkdir(path.Dir(dir)); err != nil {
			return err
		}
		mode := int64(0o755)
		if dir == "/tmp" {
			mode = 0o1777
		}
		return layer.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: strings.TrimPrefix(dir, "/") + "/", Mode: mode})
	}
	if err := mkdir("/tmp"); err != nil {
		return nil, err
	}
	slices.SortStableFunc(files, func(a, b File) int { return strings.Compare(a.To, b.To) })
	files = slices.CompactFunc(files, func(a, b File) bool { return a.To == b.To })
	for _, f := range files {
		data, mode := []byte(f.Content), int64(0o644)
		if f.From != "" {
			var err error
			if data, err = os.ReadFile(f.From); err != nil {
				return nil, err
			}
			mode = 0o755
		}
		if err := mkdir(path.Dir(f.To)); err != nil {
			return nil, err
		}
		if err := layer.WriteHeader(&tar.Header{Name: strings.TrimPrefix(f.To, "/"), Mode: mode, Size: int64(len(data))}); err != nil {
			return nil, err
		}
		if _, err := layer.Write(data); err != nil {
			return nil, err
		}
	}
	if err := layer.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// libraryLine is a line of ldd: "libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x...)", or "/lib64/ld-linux-x86-64.so.2 (0x...)".
var libraryLine = regexp.MustCompile(`(?m)^\s+(?:\S+ => )?(/\S+) \(0x`)

// librariesOf returns the libraries that a program loads; none of one that is static, or that is no program.
func librariesOf(file string) (libraries []string, err error) {
	if file == "" {
		return nil, nil
	}
	out, err := exec.Command("ldd", file).CombinedOutput()
	if bytes.Contains(out, []byte("not a dynamic executable")) || bytes.Contains(out, []byte("statically linked")) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("libraries of %s: ldd: %w: %s", file, err, out)
	}
	if missing := regexp.MustCompile(`(?m)^\s+(\S+) => not found`).FindSubmatch(out); missing != nil {
		return nil, fmt.Errorf("libraries of %s: %s is not there", file, missing[1])
	}
	for _, match := range libraryLine.FindAllSubmatch(out, -1) {
		libraries = append(libraries, string(match[1]))
	}
	return libraries, nil
}
