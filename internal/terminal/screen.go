// Package terminal shows the work of a middleware on a terminal: a screen that is drawn repeatedly in the same place, a
// second in a few lines, and the view of `mcmw top`.
package terminal

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// screenWidth is the assumed width, in columns, of a terminal that does not report it.
const screenWidth = 100

// Screen shows a view of several lines, repeatedly in the same place if out is a terminal.
type Screen struct {
	out      io.Writer
	terminal *os.File // nil if out is no terminal
	colors   bool
	whole    bool // the view uses the whole terminal, from its first line on
	drawn    int  // number of lines of the view that are on the terminal
}

// Is reports whether w is a terminal.
func Is(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// NewScreen returns a Screen that writes to out.
func NewScreen(out io.Writer) *Screen {
	s := &Screen{out: out}
	if Is(out) {
		s.terminal = out.(*os.File)
		s.colors = os.Getenv("NO_COLOR") == ""
	}
	return s
}

// size returns the columns and rows of the terminal. If it does not report them, size returns enough for the given
// number of lines.
func (s *Screen) size(lines int) (width, height int) {
	width, height, err := term.GetSize(int(s.terminal.Fd()))
	if err != nil || width == 0 || height == 0 {
		return screenWidth, lines + 1
	}
	return width, height
}

// Show draws the lines over the previous ones, as far as there is room.
func (s *Screen) Show(lines []string) {
	width, height := s.size(len(lines))
	s.draw(lines, width, height)
}

// draw draws the lines over the previous ones, and cuts them to width and height: a line that wraps or scrolls away
// could not be overdrawn.
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
	_, _ = s.out.Write(b.Bytes()) // if the terminal is gone, SIGHUP ends the process
}

// Cut returns the first width columns of line. Color sequences in line are kept if colors is true, else removed.
func Cut(line string, width int, colors bool) string {
	var b strings.Builder
	columns := 0
	for len(line) > 0 {
		if strings.HasPrefix(line, "\x1b[") {
			color, rest, _ := strings.Cut(line, "m")
			if colors {
				b.WriteString(color + "m")
			}
			line = rest
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

// watchKeys makes the terminal deliver every key at once without showing it, and calls end when q is pressed. restore
// stops this and restores the terminal. Ctrl-C remains a signal.
func watchKeys(terminal *os.File, end func()) (restore func(), err error) {
	fd := int(terminal.Fd())
	before, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return nil, err
	}
	keys := *before
	keys.Lflag &^= unix.ICANON | unix.ECHO
	keys.Cc[unix.VMIN], keys.Cc[unix.VTIME] = 0, 1 // a read returns after a tenth of a second, with or without a key
	keys.Cc[unix.VSUSP] = 0                        // a process that is stopped would leave the terminal in this mode
	if err := unix.IoctlSetTermios(fd, unix.TCSETS, &keys); err != nil {
		return nil, err
	}
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		key := make([]byte, 1)
		for {
			select {
			case <-stop:
				return
			default:
			}
			n, err := unix.Read(fd, key)
			if n == 1 && (key[0] == 'q' || key[0] == 'Q') {
				end()
			}
			if err != nil && err != unix.EINTR {
				end() // the terminal is gone
				return
			}
		}
	}()
	return func() {
		close(stop)
		<-ended
		_ = unix.IoctlSetTermios(fd, unix.TCSETSF, before) // discards pending keys, which are not for the shell
	}, nil
}
