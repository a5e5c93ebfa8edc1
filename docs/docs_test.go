// Package docs tests that the documentation agrees with the code.
package docs

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// pages are the documents a person reads, relative to this directory.
func pages(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for _, pattern := range []string{"../*.md", "*.md", "results/*.md", "runbooks/*.md", "../deploy/helm/*/*.md"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, file := range files {
			texts[file] = read(t, file)
		}
	}
	require.Contains(t, texts, "../README.md")
	require.Contains(t, texts, "architecture.md")
	return texts
}

func read(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(b)
}

func TestEveryLinkLeadsToAFileAndEveryFragmentToAHeading(t *testing.T) {
	code := regexp.MustCompile("(?s)```.*?```")
	link := regexp.MustCompile(`\]\(([^)]+)\)`)
	heading := regexp.MustCompile(`(?m)^#+ (.*)$`)
	found := 0
	for page, text := range pages(t) {
		for _, match := range link.FindAllStringSubmatch(code.ReplaceAllString(text, ""), -1) {
			if strings.Contains(match[1], "://") {
				continue
			}
			found++
			file, fragment, _ := strings.Cut(match[1], "#")
			target := filepath.Join(filepath.Dir(page), file)
			require.FileExists(t, target, "%s links to %s", page, match[1])
			if fragment == "" {
				continue
			}
			var anchors []string
			for _, h := range heading.FindAllStringSubmatch(read(t, target), -1) {
				anchors = append(anchors, strings.ReplaceAll(strings.ToLower(h[1]), " ", "-"))
			}
			require.Contains(t, anchors, fragment, "%s links to %s", page, match[1])
		}
	}
	require.NotZero(t, found)
}

func TestTheIndexListsEveryPage(t *testing.T) {
	listed := map[string]bool{"README.md": true}
	for _, index := range []string{"README.md", "runbooks/README.md"} {
		for _, match := range regexp.MustCompile(`\]\(([^)#]+)\)`).FindAllStringSubmatch(read(t, index), -1) {
			listed[filepath.Join(filepath.Dir(index), match[1])] = true
		}
	}
	for page := range pages(t) {
		require.True(t, strings.HasPrefix(page, "../") || listed[page], "no index lists %s", page)
	}
}

// Say a thing once, and link to it.
func TestThePagesWrittenByHandAreShort(t *testing.T) {
	const most = 25_000
	words := 0
	for page, text := range pages(t) {
		if page != "../README.md" && (strings.HasPrefix(page, "../") || strings.HasPrefix(page, "results/")) {
			continue
		}
		for word := range strings.FieldsSeq(text) {
			if strings.ContainsFunc(word, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) {
				words++
			}
		}
	}
	require.Greater(t, words, most/2, "pages were not found")
	require.LessOrEqual(t, words, most, "words in README.md and docs/ without docs/results")
}

func TestEveryMakeTargetThatIsNamedExists(t *testing.T) {
	named := regexp.MustCompile("(?m)(?:`|^    )make ([a-z][a-z-]*)")
	makefile := read(t, "../Makefile")
	found := 0
	for page, text := range pages(t) {
		for _, match := range named.FindAllStringSubmatch(text, -1) {
			found++
			require.Regexp(t, `(?m)^`+match[1]+`:`, makefile, "%s names make %s", page, match[1])
		}
	}
	require.NotZero(t, found)
}

// A tag of an action can be moved to other code; a commit can't.
func TestEveryActionOfAWorkflowIsPinnedToACommit(t *testing.T) {
	workflows, err := filepath.Glob("../.github/workflows/*.yml")
	require.NoError(t, err)
	require.NotEmpty(t, workflows)
	for _, path := range workflows {
		var workflow struct {
			Jobs map[string]struct {
				Steps []struct{ Uses string }
			}
		}
		require.NoError(t, yaml.Unmarshal([]byte(read(t, path)), &workflow), path)
		for job, j := range workflow.Jobs {
			require.NotEmpty(t, j.Steps, "%s: %s", path, job)
			for _, step := range j.Steps {
				if step.Uses != "" {
					require.Regexp(t, `^[a-z0-9-]+/[a-z0-9-]+@[0-9a-f]{40}$`, step.Uses, "%s: %s", path, job)
				}
			}
		}
	}
}

// The drawing's source is the package that assembles the stages; architecture.md repeats it.
func TestTheDrawingIsTheOneOfTheMiddleware(t *testing.T) {
	var drawing strings.Builder
	for line := range strings.Lines(read(t, "../internal/middleware/doc.go")) {
		switch rest, drawn := strings.CutPrefix(line, "//\t"); {
		case drawn:
			drawing.WriteString("    " + rest)
		case drawing.Len() > 0 && line == "//\n":
			drawing.WriteString("\n")
		case drawing.Len() > 0:
			want := strings.TrimRight(drawing.String(), "\n") + "\n"
			require.Contains(t, want, "reader goroutine")
			require.True(t, strings.Contains(read(t, "architecture.md"), want),
				"architecture.md lacks this drawing:\n%s", want)
			return
		}
	}
	t.Fatal("internal/middleware/doc.go has no drawing")
}

func TestThePackageMapHasEveryPackageOnce(t *testing.T) {
	dirs := map[string]bool{}
	for _, root := range []string{"cmd", "internal", "lab", "test"} {
		require.NoError(t, fs.WalkDir(os.DirFS(".."), root, func(path string, d fs.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
				dirs[filepath.Dir(path)] = true
			}
			return err
		}))
	}
	rows := map[string]int{}
	for _, row := range regexp.MustCompile("(?m)^\\| `((?:cmd|internal|lab|test)(?:/[^`]*)?)` \\|").
		FindAllStringSubmatch(read(t, "architecture.md"), -1) {
		rows[row[1]]++
		require.True(t, dirs[row[1]], "the map has %s, which is not a package", row[1])
	}
	// The lab has a map of its own.
	for _, row := range regexp.MustCompile(`(?m)^//\t(\S+) {2,}\S`).
		FindAllStringSubmatch(read(t, "../lab/doc.go"), -1) {
		rows["lab/"+row[1]]++
		require.True(t, dirs["lab/"+row[1]], "the lab's map has %s, which is not a package", row[1])
	}
	for dir := range dirs {
		if !strings.HasPrefix(dir, "internal/mctest/") && !strings.Contains(dir, "/testdata/") {
			require.Equal(t, 1, rows[dir], "rows of package %s in the map", dir)
		}
	}
}

func TestEveryServeCommandIsAccepted(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "mcmw")
	out, err := exec.Command("go", "build", "-o", binary, "../cmd/mcmw").CombinedOutput()
	require.NoError(t, err, "%s", out)
	command := regexp.MustCompile(`(?m)^ +(?:bin/)?mcmw serve (.*)$`)
	found := 0
	for page, text := range pages(t) {
		for _, match := range command.FindAllStringSubmatch(text, -1) {
			found++
			check := exec.Command(binary, append([]string{"config", "check"}, strings.Fields(match[1])...)...)
			out, err := check.CombinedOutput()
			require.NoError(t, err, "%s: mcmw serve %s: %s", page, match[1], out)
		}
	}
	require.GreaterOrEqual(t, found, 3)
}
