// Package terminal shows what a middleware does on a terminal: a screen that is drawn over itself, a second in some lines, and the
// view of a running middleware that `mcmw top` is.
package terminal

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"
)

// screenWidth is the assumed width of a terminal that does not report it, columns.
const screenWidth = 100

// Screen shows a view of several lines, repeatedly in the same place if out is a terminal.
type Screen struct {
	out      io.Writer
	terminal *os.File // nil when out is none
	colors   bool
	whole    bool // the view uses the whole terminal, from its first line on
	drawn    int  // lines of the view on the terminal
}

// Is reports whether w is a terminal.
func Is(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// NewScreen returns a screen of views that are written to out.
func NewScreen(out io.Writer) *Screen {
	s := &Screen{out: out}
	if Is(out) {
		s.terminal = out.(*os.File)
		s.colors = os.Getenv("NO_COLOR") == ""
	}
	return s
}

// size returns the columns and rows of the terminal, or, if it does not report them, as many as the lines need.
func (s *Screen) size(lines int) (width, height int) {
	width, height, err := term.GetSize(int(s.terminal.Fd()))
	if err != nil || width == 0 || height == 0 {
		return screenWidth, lines + 1
	}
	return width, height
}

// Show draws the lines over those shown before, as many as there is room for.
func (s *Screen) Show(lines []string) {
	width, height := s.size(len(lines))
	s.draw(lines, width, height)
}

// draw draws the lines over those drawn before. What does not fit into width and height is cut: a line that wraps or
// scrolls away could not be drawn over.
func (s *Screen) draw(lines []string, width, height int) {
	var b bytes.Buffer
	switch {
	case s.whole:
		b.WriteString("\x1b[H")
	case s.drawn > 0:
		fmt.Fprintf(&b, "\x1b[%dA\r", s.drawn)
	}
	s.drawn = max(min(len(lines), height-1), 0)
	for _, line := range lines[:s.drawn] {
		b.WriteString(Cut(line, width, s.colors))
		b.WriteString("\x1b[K\n")
	}
	b.WriteString("\x1b[J")
	_, _ = s.out.Write(b.Bytes()) // when the terminal is gone, SIGHUP ends the process
}

// Cut returns the first width columns of line, which may hold color sequences; these are left out without colors.
func Cut(line string, width int, colors bool) string {
	var b strings.Builder
	columns := 0
	for len(line) > 0 {
		if strings.HasPrefix(line, "\x1b[") {
			end := strings.IndexByte(line, 'm') + 1
			if colors {
				b.WriteString(line[:end])
			}
			line = line[end:]
			continue
		}
		r, size := utf8.DecodeRuneInString(line)
		if columns++; columns <= width {
			b.WriteRune(r)
		}
		line = line[size:]
	}
	return b.String()
}
