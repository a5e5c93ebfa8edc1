package table

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var example = Table{
	Caption: "Effects of 2^3 & more",
	Columns: []string{"effect", "q [ops/s]", "what"},
	Rows:    [][]string{{"I", "8465", "λ_1 | <b>"}, {"SM", "-91"}},
	Left:    []int{2},
	Notes:   []string{"100% of {it}"},
}

func written(t *testing.T, f Format) string {
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

func TestFormatsAreReadByName(t *testing.T) {
	for _, f := range Formats {
		got, err := ParseFormat(string(f))
		require.NoError(t, err)
		assert.Equal(t, f, got)
	}
	_, err := ParseFormat("word")
	require.EqualError(t, err, `format "word": expected one of text, markdown, latex, html`)
	assert.Error(t, example.Write(io.Discard, "word"))
}
