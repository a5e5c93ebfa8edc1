package terminal

import (
	"os"

	"golang.org/x/sys/unix"
)

// watchKeys has the terminal give every key at once and not show it, and calls end at a q. The function it returns ends
// that and restores the terminal. Ctrl-C remains a signal.
func watchKeys(terminal *os.File, end func()) (restore func(), err error) {
	fd := int(terminal.Fd())
	before, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return nil, err
	}
	keys := *before
	keys.Lflag &^= unix.ICANON | unix.ECHO
	keys.Cc[unix.VMIN], keys.Cc[unix.VTIME] = 0, 1 // a read returns after a tenth of a second, with or without a key
	keys.Cc[unix.VSUSP] = 0                        // stopped, it would leave the terminal as it is now
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
				end() // the terminal has gone
				return
			}
		}
	}()
	return func() {
		close(stop)
		<-ended
		_ = unix.IoctlSetTermios(fd, unix.TCSETSF, before) // keys that came meanwhile are not for the shell
	}, nil
}
