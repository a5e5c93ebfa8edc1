package terminal

import (
	"os"

	"golang.org/x/sys/unix"
)

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
