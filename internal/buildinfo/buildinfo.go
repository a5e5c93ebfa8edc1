// Package buildinfo tells which version of a program is running, from the version given to the linker and from the
// information that the Go toolchain recorded.
package buildinfo

import (
	"cmp"
	"fmt"
	"regexp"
	"runtime"
	"runtime/debug"
)

// Info identifies the build of a program. Its JSON is the output of `mcmw version -o json`.
type Info struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"` // "" if unknown
	Modified *bool  `json:"modified"`         // whether the tree differed from Commit; nil if unknown
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// described matches what `git describe --always --dirty` ends with: a commit, and whether the tree had changes.
var described = regexp.MustCompile(`(?:^|-g)([0-9a-f]{7,40})(-dirty)?$`)

// Read returns the Info of this program. version is the one given to the linker; "": none was.
func Read(version string) Info {
	build, _ := debug.ReadBuildInfo()
	return read(version, build)
}

// read is Read with the information that the toolchain recorded; nil: none.
func read(version string, build *debug.BuildInfo) Info {
	info := Info{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if build != nil {
		if version == "" && build.Main.Version != "(devel)" {
			info.Version = build.Main.Version
		}
		for _, s := range build.Settings {
			switch s.Key {
			case "vcs.revision":
				info.Commit = s.Value
			case "vcs.modified":
				info.Modified = new(s.Value == "true")
			}
		}
	}
	// A build outside the repository, such as that of a container image, has only the version given to the linker.
	if parts := described.FindStringSubmatch(version); parts != nil && info.Commit == "" {
		info.Commit, info.Modified = parts[1], new(parts[2] != "")
	}
	info.Version = cmp.Or(info.Version, "unknown")
	return info
}

// String is a line such as "0.1.0 (commit 1a2b3c4, unmodified) go1.26.0 linux/amd64".
func (i Info) String() string {
	tree := ""
	switch {
	case i.Modified == nil:
	case *i.Modified:
		tree = ", modified"
	default:
		tree = ", unmodified"
	}
	return fmt.Sprintf("%s (commit %s%s) %s %s", i.Version, cmp.Or(i.Commit, "unknown"), tree, i.Go, i.Platform)
}
