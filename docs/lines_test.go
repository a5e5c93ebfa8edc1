package docs

import (
	"go/scanner"
	"go/token"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	// maxColumns is the length of the longest line, columns; a tab has four.
	maxColumns = 120
	// maxLines is the length of the longest file that is no test, lines.
	maxLines = 500
)

// longFiles may be longer than maxLines until they are divided. None may be added.
var longFiles = map[string]bool{
	"internal/control/control.go":    true,
	"internal/mctest/model/model.go": true,
}

func TestNoLineAndNoFileIsTooLong(t *testing.T) {
	list := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.go")
	list.Dir = ".."
	listed, err := list.Output()
	require.NoError(t, err)
	files := strings.Split(strings.TrimRight(string(listed), "\x00"), "\x00")
	require.Greater(t, len(files), 100)
	for _, file := range files {
		text := read(t, filepath.Join("..", file))
		for _, line := range longLines(text) {
			assert.Fail(t, "a line is too long", "%s:%d has more than %d columns", file, line, maxColumns)
		}
		if n := strings.Count(text, "\n"); !strings.HasSuffix(file, "_test.go") && !longFiles[file] {
			assert.LessOrEqual(t, n, maxLines, "%s has too many lines", file)
		}
	}
}

// longLines returns the numbers of the lines of a Go file with more than maxColumns columns. Raw strings and drawings
// in comments may be longer.
func longLines(text string) []int {
	var long []int
	raw := map[int]bool{}
	file := token.NewFileSet().AddFile("", -1, len(text))
	var s scanner.Scanner
	s.Init(file, []byte(text), nil, 0)
	for p, kind, literal := s.Scan(); kind != token.EOF; p, kind, literal = s.Scan() {
		for i := 0; strings.HasPrefix(literal, "`") && i <= strings.Count(literal, "\n"); i++ {
			raw[file.Line(p)+i] = true
		}
	}
	for i, line := range strings.Split(text, "\n") {
		if utf8.RuneCountInString(line)+3*strings.Count(line, "\t") > maxColumns &&
			!raw[i+1] && !strings.HasPrefix(strings.TrimSpace(line), "//\t") {
			long = append(long, i+1)
		}
	}
	return long
}

func TestLongLinesOfCodeAndProseAreFound(t *testing.T) {
	long := strings.Repeat("x", maxColumns)
	require.Equal(t, []int{3, 5}, longLines("package a\n\n// "+long+"\n\nconst a = \""+long+"\"\n\n//\t"+long+
		"\n\nconst b = `"+long+"\n"+long+"`\n"))
}
