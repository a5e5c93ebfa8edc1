// Package image makes container images from programs of this machine: the programs with the libraries that ldd names,
// and a list of users.
package image

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"regexp"
	"runtime"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"mcmw/internal/tools/image/archive"
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

// Write writes the image as an archive. The same files make the same bytes.
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
	contents, err := contentsOf(files)
	if err != nil {
		return err
	}
	image, err := archive.Image(v1.ConfigFile{
		OS: "linux", Architecture: runtime.GOARCH,
		Config: v1.Config{Entrypoint: i.Entrypoint, Cmd: i.Cmd, Env: i.Env, User: i.User},
	}, contents)
	if err != nil {
		return err
	}
	return archive.Write(w, i.Name, image)
}

// contentsOf returns the files, each after the directories it is in, and a /tmp for everybody.
func contentsOf(files []File) ([]archive.File, error) {
	contents := []archive.File{{Path: "tmp/", Mode: 0o1777}}
	dirs := map[string]bool{"/": true, "/tmp": true}
	var mkdir func(dir string)
	mkdir = func(dir string) {
		if dirs[dir] {
			return
		}
		dirs[dir] = true
		mkdir(path.Dir(dir))
		contents = append(contents, archive.File{Path: dir[1:] + "/", Mode: 0o755})
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
		mkdir(path.Dir(f.To))
		contents = append(contents, archive.File{Path: f.To[1:], Mode: mode, Contents: data})
	}
	return contents, nil
}

// libraryLine is a line of ldd: "libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x...)", or "/lib64/ld-linux-x86-64.so.2
// (0x...)".
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
