package main

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

// screen shows a view of several lines, repeatedly in the same place if out is a terminal.
type screen struct {
	out      io.Writer
	terminal *os.File // nil when out is none
	colors   bool
	whole    bool // the view uses the whole terminal, from its first line on
	drawn    int  // lines of the view on the terminal
}

func newScreen(out io.Writer) *screen {
	s := &screen{out: out}
	if isTerminal(out) {
		s.terminal = out.(*os.File)
		s.colors = os.Getenv("NO_COLOR") == ""
	}
	return s
}

// size returns the columns and rows of the terminal, or, if it does not report them, as many as the lines need.
func (s *screen) size(lines int) (width, height int) {
	width, height, err := term.GetSize(int(s.terminal.Fd()))
	if err != nil || width == 0 || height == 0 {
		return screenWidth, lines + 1
	}
	return width, height
}

// show draws the lines over those shown before, as many as there is room for.
func (s *screen) show(lines []string) {
	width, height := s.size(len(lines))
	s.draw(lines, width, height)
}

// draw draws the lines over those drawn before. What does not fit into width and height is cut: a line that wraps or
// scrolls away could not be drawn over.
func (s *screen) draw(lines []string, width, height int) {
	var b bytes.Buffer
	switch {
	case s.whole:
		b.WriteString("\x1b[H")
	case s.drawn > 0:
		fmt.Fprintf(&b, "\x1b[%dA\r", s.drawn)
	}
	s.drawn = max(min(len(lines), height-1), 0)
	for _, line := range lines[:s.drawn] {
		b.WriteString(cut(line, width, s.colors))
		b.WriteString("\x1b[K\n")
	}
	b.WriteString("\x1b[J")
	_, _ = s.out.Write(b.Bytes()) // when the terminal is gone, SIGHUP ends the process
}

// cut returns the first width columns of line, which may hold color sequences; these are left out without colors.
func cut(line string, width int, colors bool) string {
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
