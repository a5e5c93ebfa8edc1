package table

import (
	"encoding/xml"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/lab/plot"
)

var example = Table{
	Caption: "Effects of 2^3 & more",
	Columns: []string{"effect", "q [ops/s]", "what"},
	Rows:    [][]string{{"I", "8465", "λ_1 | <b>"}, {"SM", "-91"}},
	Left:    []int{2},
	Notes:   []string{"100% of {it}"},
}

func written(t *testing.T, f string) string {
	var b strings.Builder
	require.NoError(t, example.Write(&b, f))
	return b.String()
}

func TestTextIsAligned(t *testing.T) {
	assert.Equal(t, "Effects of 2^3 & more\n\n"+
		"effect  q [ops/s]  what\n"+
		"------  ---------  ---------\n"+
		"I            8465  λ_1 | <b>\n"+
		"SM            -91\n\n"+
		"100% of {it}\n\n", written(t, Text))
}

func TestMarkdownEscapesMarkup(t *testing.T) {
	assert.Equal(t, "**Effects of 2^3 & more**\n\n"+
		"| effect | q [ops/s] | what |\n"+
		"| --- | ---: | --- |\n"+
		"| I | 8465 | λ\\_1 \\| &lt;b&gt; |\n"+
		"| SM | -91 |  |\n\n"+
		"100% of {it}\n\n", written(t, Markdown))
}

func TestLaTeXEscapesCommands(t *testing.T) {
	text := written(t, LaTeX)
	assert.Contains(t, text, `\caption{Effects of 2\textasciicircum{}3 \& more}`)
	assert.Contains(t, text, `\begin{tabular}{lrl}`)
	assert.Contains(t, text, `I & 8465 & $\lambda$\_1 | \textless{}b\textgreater{} \\`)
	assert.Contains(t, text, `100\% of \{it\}`)
}

func TestHTMLIsWellFormed(t *testing.T) {
	text := written(t, HTML)
	decoder := xml.NewDecoder(strings.NewReader(text))
	cells := 0
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if start, ok := token.(xml.StartElement); ok && start.Name.Local == "td" {
			cells++
		}
	}
	assert.Equal(t, 7, cells)
	assert.Contains(t, text, "λ_1 | &lt;b&gt;")
}

func TestAPageHasItsBlocksInEveryFormat(t *testing.T) {
	p := Page{Blocks: []Block{
		Paragraph("A: <1>\nB: 2"), example,
		Figure{Name: "f", Caption: "What it shows.", Figure: plot.Figure{Title: "Title"}},
	}}
	for format, want := range map[string]string{
		Text:     "A: <1>\nB: 2\n\nEffects of 2^3 & more\n\neffect ",
		Markdown: "A: &lt;1&gt;  \nB: 2\n\n**Effects of 2^3 & more**\n\n| effect ",
		LaTeX:    "A: \\textless{}1\\textgreater{}\nB: 2\n\n\\begin{table}[htb]\n",
		HTML:     "<p>A: &lt;1&gt;<br>\nB: 2</p>\n\n<table>\n<caption>Effects",
		CSV:      "effect,q [ops/s],what\nI,8465,λ_1 | <b>\nSM,-91,\n",
		JSON:     "[\n  \"A: \\u003c1\\u003e\\nB: 2\",\n  {\n    \"caption\": \"Effects of 2^3 \\u0026 more\",\n",
	} {
		var text strings.Builder
		require.NoError(t, p.Write(&text, format))
		require.Truef(t, strings.HasPrefix(text.String(), want), "%s:\n%s", format, text.String())
		require.Equal(t, format == Markdown, strings.Contains(text.String(), "![Title](f.svg)\n\nWhat it shows."),
			format)
	}
	var text strings.Builder
	p.Object = map[string]int{"a": 1}
	require.NoError(t, p.Write(&text, JSON))
	require.JSONEq(t, `{"a": 1}`, text.String())
	require.EqualError(t, p.Write(&text, "word"),
		`format "word": expected one of text, markdown, latex, html, csv, json`)
	dir := filepath.Join(t.TempDir(), "new")
	require.NoError(t, p.Save(dir))
	require.FileExists(t, filepath.Join(dir, "f.svg"))
}
