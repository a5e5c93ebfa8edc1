package main

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"mcmw/internal/mctest"
)

func TestWithoutATerminalTopWritesALineEverySecond(t *testing.T) {
	s := start(t, "serve", "-p", "0", "-m", mctest.StartMemcached(t).Addr(), "--admin", "127.0.0.1:0")
	awaitEntry(t, s.stderr, "ready")
	code, stdout, stderr := execute(t, "top", awaitEntry(t, s.stderr, "admin server listens").Address, "-n", "2")
	require.Equal(t, exitOK, code, stderr)
	require.Regexp(t, `^(\d\d:\d\d:\d\d: 0 requests/s, mean –, .* 0\.0 of \d+ workers busy, 0 failed/s\n){2}$`, stdout)
}

func TestTopRefusesAnInvalidAddress(t *testing.T) {
	for _, address := range []string{"http://", "ftp://127.0.0.1", "http://[::1", "http:// "} {
		code, _, stderr := execute(t, "top", address)
		require.Equal(t, exitUsage, code, address)
		require.Contains(t, stderr, "want host:port, or a URL")
	}
}

// openTerminal returns both ends of a new terminal: person, who types and reads, and program.
func openTerminal(t *testing.T) (person, program *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	require.NoError(t, err)
	t.Cleanup(func() { person.Close() })
	unlocked := 0
	require.NoError(t, unix.IoctlSetPointerInt(int(person.Fd()), unix.TIOCSPTLCK, unlocked))
	n, err := unix.IoctlGetInt(int(person.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	program, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { program.Close() })
	return person, program
}

func TestTopRestoresTheTerminal(t *testing.T) {
	s := start(t, "serve", "-p", "0", "-m", mctest.StartMemcached(t).Addr(), "--admin", "127.0.0.1:0")
	address := awaitEntry(t, s.stderr, "admin server listens").Address
	for name, end := range map[string]func(t *testing.T, person *os.File, p *os.Process){
		"a key": func(t *testing.T, person *os.File, _ *os.Process) {
			_, err := person.WriteString("xq")
			require.NoError(t, err)
		},
		"Ctrl-C": func(t *testing.T, person *os.File, _ *os.Process) {
			_, err := person.WriteString("\x03")
			require.NoError(t, err)
		},
		"a SIGTERM": func(t *testing.T, _ *os.File, p *os.Process) { require.NoError(t, p.Signal(unix.SIGTERM)) },
	} {
		t.Run(name, func(t *testing.T) {
			person, program := openTerminal(t)
			before, err := unix.IoctlGetTermios(int(program.Fd()), unix.TCGETS)
			require.NoError(t, err)
			cmd := exec.Command(os.Args[0], "top", address)
			cmd.Env = append(os.Environ(), runMain+"=1")
			cmd.Stdin, cmd.Stdout, cmd.Stderr = program, program, program
			cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true, Setctty: true}
			require.NoError(t, cmd.Start())
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			t.Cleanup(func() { _ = cmd.Process.Kill() })

			seen := &output{}
			go func() {
				chunk := make([]byte, 4096)
				for {
					n, err := person.Read(chunk)
					_, _ = seen.Write(chunk[:n])
					if err != nil {
						return
					}
				}
			}()
			require.Eventually(t, func() bool { return strings.Contains(seen.String(), "throughput") }, mctest.Patience,
				10*time.Millisecond)
			during, err := unix.IoctlGetTermios(int(program.Fd()), unix.TCGETS)
			require.NoError(t, err)
			require.Zero(t, during.Lflag&unix.ECHO, "keys are not shown")

			end(t, person, cmd.Process)
			select {
			case err := <-ended:
				require.NoError(t, err)
			case <-time.After(mctest.Patience):
				require.FailNow(t, "top does not end", seen.String())
			}
			after, err := unix.IoctlGetTermios(int(program.Fd()), unix.TCGETS)
			require.NoError(t, err)
			require.Equal(t, before, after)
			require.Eventually(t, func() bool { return strings.HasSuffix(seen.String(), "\x1b[?1049l") },
				mctest.Patience, 10*time.Millisecond)
		})
	}
}
