package bench

import (
	"cmp"
	"context"
	"crypto/sha256"
	_ "embed" // the floors
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"mcmw/lab/experiment"
)

// System is a system to measure.
type System struct {
	Name string // letters, digits, - and _
	experiment.SystemKind
	Commit string // from which Build builds an mcmw; "": the program exists
	floor  *floor // which Build compiles; nil: s is none
}

// known are the systems with names of their own.
var known = []string{
	experiment.Mcmw, experiment.Twemproxy, experiment.Proxy, experiment.Direct, experiment.Floor, goFloor,
}

// goFloor is the least that a proxy of mcmw's shape can do.
const goFloor = "go-floor"

var notInName = regexp.MustCompile(`[^A-Za-z0-9_]+`)

// Find returns the system that text names: a known one, the path of an mcmw, or a revision of the git repository in the
// current directory; flags may follow. Without a path, Binary is empty: the experiment's default.
func Find(ctx context.Context, text string) (s System, err error) {
	words := strings.Fields(text)
	if len(words) == 0 {
		return s, fmt.Errorf("a system is empty: expected %s", expected)
	}
	name := words[0]
	s = System{
		Name:       strings.Trim(notInName.ReplaceAllString(text, "-"), "-"),
		SystemKind: experiment.SystemKind{Kind: experiment.Mcmw, Flags: words[1:]},
	}
	info, statErr := os.Stat(name)
	switch {
	case floors[name] != nil:
		s.Kind, s.floor = experiment.Floor, floors[name]
	case slices.Contains(known, name):
		s.Kind = name
	case statErr == nil && info.Mode().IsRegular():
		s.Binary, err = filepath.Abs(name)
	default:
		commit, gitErr := output(exec.CommandContext(ctx, "git", "rev-parse", "--verify", "--end-of-options",
			name+"^{commit}"))
		if gitErr != nil {
			return s, fmt.Errorf("%q: expected %s", name, expected)
		}
		s.Commit = strings.TrimSpace(commit)
	}
	return s, err
}

var expected = "the path of an mcmw, a revision of the repository in this directory, or one of " +
	strings.Join(known, ", ")

//go:embed floor/floor.c
var cSource []byte

//go:embed gofloor.go
var goSource []byte

// floor is a program of one file.
type floor struct {
	source   []byte
	file     string   // its name
	compiler []string // without -o, the program and the source
	missing  string   // what to do without the compiler
}

var floors = map[string]*floor{
	experiment.Floor: {cSource, "floor.c", []string{"cc", "-O2"}, "on Debian: apt-get install gcc"},
	goFloor:          {goSource, "floor.go", []string{"go", "build"}, "install Go"},
}

// Build builds the program of s, if it has to be built, unless dir has it from before.
func (s *System) Build(ctx context.Context, dir string, progress io.Writer) error {
	switch {
	case s.floor != nil:
		s.Binary = filepath.Join(dir, fmt.Sprintf("floor-%.6x", sha256.Sum256(s.floor.source)))
		return s.once(progress, func(to string) error {
			file := filepath.Join(filepath.Dir(to), s.floor.file)
			if err := os.WriteFile(file, s.floor.source, 0o644); err != nil {
				return err
			}
			defer os.Remove(file)
			compile := s.floor.compiler
			if _, err := exec.LookPath(compile[0]); err != nil {
				return fmt.Errorf("%w; %s", err, s.floor.missing)
			}
			_, err := output(exec.CommandContext(ctx, compile[0], append(compile[1:], "-o", to, file)...))
			return err
		})
	case s.Commit != "":
		s.Binary = filepath.Join(dir, s.Commit, "mcmw")
		return s.once(progress, func(to string) error {
			source, err := os.MkdirTemp(dir, "source")
			if err != nil {
				return err
			}
			defer os.RemoveAll(source)
			top, err := output(exec.CommandContext(ctx, "git", "rev-parse", "--show-toplevel"))
			if err != nil {
				return err
			}
			archive, err := output(exec.CommandContext(ctx, "git", "-C", strings.TrimSpace(top), "archive", s.Commit))
			if err != nil {
				return err
			}
			unpack := exec.CommandContext(ctx, "tar", "-x", "-C", source)
			unpack.Stdin = strings.NewReader(archive)
			if _, err := output(unpack); err != nil {
				return err
			}
			compile := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags",
				"-X main.version="+s.Commit[:12], "-o", to, "./cmd/mcmw")
			compile.Dir = source
			compile.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
			_, err = output(compile)
			return err
		})
	}
	return nil
}

// ProxyBinary returns the path of a memcached, or an error unless it is built with its proxy.
func ProxyBinary(ctx context.Context, name string) (path string, err error) {
	if path, err = exec.LookPath(name); err != nil {
		return "", err
	}
	help, err := output(exec.CommandContext(ctx, path, "-h"))
	if err == nil && !strings.Contains(help, "proxy_config") {
		err = fmt.Errorf("%s is built without memcached's proxy: expected one that is built with --enable-proxy "+
			"(1.6.24 or later); give its path with --program proxy=PATH", path)
	}
	return path, err
}

// once makes the file of s.Binary with build, whose argument is a path beside it, unless it exists.
func (s *System) once(progress io.Writer, build func(to string) error) error {
	if _, err := os.Stat(s.Binary); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(s.Binary), 0o755); err != nil {
		return err
	}
	fmt.Fprintf(progress, "building %s\n", s.Name)
	unfinished := fmt.Sprintf("%s.%d", s.Binary, os.Getpid())
	defer os.Remove(unfinished)
	if err := build(unfinished); err != nil {
		return fmt.Errorf("building %s: %w", s.Name, err)
	}
	return os.Rename(unfinished, s.Binary)
}

// output runs a program. An error has what it wrote to standard error.
func output(cmd *exec.Cmd) (string, error) {
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %s", filepath.Base(cmd.Path),
			cmp.Or(strings.TrimSpace(stderr.String()), err.Error()))
	}
	return stdout.String(), nil
}
