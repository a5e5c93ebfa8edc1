package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// The delimiters of a page's blocks. The first line has a command of mcmwlab, such as
//
//	<!-- $ mcmwlab capacity results/servers/01-connections --format markdown -->
const (
	fillBegin = "<!-- $ mcmwlab "
	fillClose = " -->"
	fillEnd   = "<!-- end -->"
)

// fillable are the commands that a page can contain. They read records and change nothing.
var fillable = []string{"capacity", "compare", "report", "show", "paper", "factorial", "model"}

func newFillCommand(stderr io.Writer) *cobra.Command {
	return &cobra.Command{
		Use:   "fill PAGE",
		Short: "Fill a Markdown page with the outputs of the commands in it",
		Long: `Fill a Markdown page with the outputs of mcmwlab's commands. A block begins with a line with the command and ends with a line <!-- end -->:

  <!-- $ mcmwlab capacity results/servers/01-connections --format markdown -->
  the output, which is replaced
  <!-- end -->

Output of --format markdown or --table is inserted unchanged, other output as indented text. With > FILE after the command the output goes to a
file in the directory of the page, and the block keeps its content, such as a link to a figure. Accepted commands are ` + strings.Join(fillable, ", ") + `.
Paths are relative to the current directory. The page is written only if all commands succeed.`,
		Example: `  mcmwlab fill docs/results/memcached-and-redis.md`,
		Args:    oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			page, err := os.ReadFile(args[0])
			if err != nil {
				return usageError{err}
			}
			filled, err := fill(cmd.Context(), page, filepath.Dir(args[0]), stderr)
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			return os.WriteFile(args[0], filled, 0o644)
		},
	}
}

// fill returns the page with new outputs in its blocks. It writes files to dir.
func fill(ctx context.Context, page []byte, dir string, stderr io.Writer) ([]byte, error) {
	lines := strings.SplitAfter(string(page), "\n")
	var out strings.Builder
	blocks := 0
	for at := 0; at < len(lines); at++ {
		out.WriteString(lines[at])
		line := strings.TrimSpace(lines[at])
		if !strings.HasPrefix(line, fillBegin) {
			continue
		}
		blocks++
		length := slices.IndexFunc(lines[at+1:], func(l string) bool { return strings.TrimSpace(l) == fillEnd })
		if length < 0 || !strings.HasSuffix(line, fillClose) {
			return nil, fmt.Errorf("line %d: expected the block %q to end with a line %s", at+1, line, fillEnd)
		}
		old := strings.Join(lines[at+1:at+1+length], "")
		text, err := fillBlock(ctx, strings.Fields(strings.TrimSuffix(strings.TrimPrefix(line, fillBegin), fillClose)),
			old, dir, stderr)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", at+1, err)
		}
		out.WriteString(text)
		at += length
	}
	if blocks == 0 {
		return nil,
			fmt.Errorf("the page has no block: expected lines such as %scapacity RECORD --format markdown%s and %s",
				fillBegin, fillClose, fillEnd)
	}
	return []byte(out.String()), nil
}

// fillBlock runs a block's command and returns the block's new content.
func fillBlock(ctx context.Context, words []string, old, dir string, stderr io.Writer) (string, error) {
	if len(words) == 0 || !slices.Contains(fillable, words[0]) {
		return "", fmt.Errorf("%q: expected one of the commands %s", strings.Join(words, " "),
			strings.Join(fillable, ", "))
	}
	file := ""
	if i := slices.Index(words, ">"); i >= 0 {
		if i != len(words)-2 || !filepath.IsLocal(words[i+1]) {
			return "", errors.New("expected the path of one file, below the directory of the page, after >")
		}
		file, words = filepath.Join(dir, words[i+1]), words[:i]
	}
	var output bytes.Buffer
	if err := run(ctx, words, &output, stderr); err != nil {
		return "", fmt.Errorf("mcmwlab %s: %w", strings.Join(words, " "), err)
	}
	if file != "" {
		return old, os.WriteFile(file, output.Bytes(), 0o644)
	}
	text := strings.TrimRight(output.String(), "\n")
	if !slices.Contains(words, "markdown") && !slices.Contains(words, "--table") {
		text = "    " + strings.ReplaceAll(text, "\n", "\n    ")
		text = strings.ReplaceAll(text, "\n    \n", "\n\n")
	}
	return "\n" + text + "\n\n", nil
}
