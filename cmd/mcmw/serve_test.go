package main

import (
	"bufio"
	"encoding/json"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mcmw/internal/config"
	"mcmw/internal/mctest"
)

// entry is one line of the JSON log.
type entry struct {
	Level    string   `json:"level"`
	Msg      string   `json:"msg"`
	Address  string   `json:"address"`
	Server   string   `json:"server"`
	Listen   []string `json:"listen"`
	Servers  []string `json:"servers"`
	Workers  int      `json:"workers"`
	Depth    int      `json:"depth"`
	Replicas int      `json:"replicas"`
	Sharded  bool     `json:"sharded"`
	Requests int      `json:"requests"`
}

// awaitEntry waits for the first line of the log whose message is msg.
func awaitEntry(t *testing.T, log *output, msg string) (found entry) {
	t.Helper()
	require.Eventually(t, func() (ok bool) {
		found, ok = findEntry(log, msg)
		return ok
	}, mctest.Patience, mctest.Tick, "no log line %q in:\n%s", msg, log)
	return found
}

func findEntry(log *output, msg string) (found entry, ok bool) {
	for line := range strings.Lines(log.String()) {
		if json.Unmarshal([]byte(line), &found) == nil && found.Msg == msg {
			return found, true
		}
	}
	return entry{}, false
}

// exitCode waits for the end of s.
func (s *started) exitCode(t *testing.T) int {
	t.Helper()
	select {
	case code := <-s.code:
		return code
	case <-time.After(mctest.Patience):
		require.FailNow(t, "the command does not end", s.stderr.String())
		return 0
	}
}

func TestServeWorksWithTheShortFlagsOfTheReports(t *testing.T) {
	a, b := mctest.StartMemcached(t), mctest.StartMemcached(t)
	s := start(t, "serve", "-l", "127.0.0.1", "-p", "0", "-t", "64", "-s", "true", "-m", a.Addr(), b.Addr(),
		"--admin", "off")
	ready := awaitEntry(t, s.stderr, "ready")
	require.Equal(t, []string{a.Addr(), b.Addr()}, ready.Servers)
	require.Equal(t, 64, ready.Workers)
	require.Equal(t, 128, ready.Depth)
	require.Equal(t, 2, ready.Replicas)
	require.True(t, ready.Sharded)

	client := mctest.MustDial(t, ready.Listen[0])
	require.Equal(t, "STORED\r\n", client.MustDo(t, "set k 0 0 1\r\nv\r\n"))
	for _, addr := range []string{ready.Listen[0], a.Addr(), b.Addr()} {
		require.Equal(t, "VALUE k 0 1\r\nv\r\nEND\r\n", mctest.MustDial(t, addr).MustDo(t, "get k\r\n"), addr)
	}
	s.stop()
	require.Equal(t, exitOK, s.exitCode(t))
	require.Equal(t, 2, awaitEntry(t, s.stderr, "stopped").Requests)
}

func TestServeListensOnUnixSocketsAndSeveralAddresses(t *testing.T) {
	path := t.TempDir() + "/m.sock"
	for mask, mode := range map[string]fs.FileMode{"": 0o700, "-a0766": 0o766} {
		s := start(t, strings.Fields("serve -l unix:"+path+",127.0.0.1:0 -m "+mctest.StartMemcached(t).Addr()+
			" --admin off "+mask)...)
		ready := awaitEntry(t, s.stderr, "ready")
		require.Len(t, ready.Listen, 2)
		for _, addr := range []string{"unix:" + path, ready.Listen[1]} {
			require.Equal(t, "END\r\n", mctest.MustDial(t, addr).MustDo(t, "get k\r\n"), addr)
		}
		socket, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, mode, socket.Mode().Perm())
		s.stop()
		require.Equal(t, exitOK, s.exitCode(t))
	}
}

func TestAPortInUseIsNamed(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	for name, args := range map[string][]string{
		"clients": {"--listen", "127.0.0.1:0," + taken.Addr().String(), "--admin", "off"},
		"admin":   {"--listen", "127.0.0.1:0", "--admin", taken.Addr().String()},
	} {
		code, _, stderr := execute(t, append([]string{"serve", "-m", "127.0.0.1:1"}, args...)...)
		require.Equal(t, exitFailed, code, name)
		require.Contains(t, stderr, taken.Addr().String(), name)
		require.Contains(t, stderr, "address already in use", name)
	}
}

func TestAFileAtThePathOfAUnixSocketIsLeftAlone(t *testing.T) {
	path := t.TempDir() + "/mcmw.yaml"
	require.NoError(t, os.WriteFile(path, []byte("servers: [a]\n"), 0o600))
	code, _, stderr := execute(t, "serve", "-m", "127.0.0.1:1", "--listen", "unix:"+path, "--admin", "off")
	require.Equal(t, exitFailed, code)
	require.Contains(t, stderr, "listen on unix:"+path+": there is a file that is no socket; choose another path")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "servers: [a]\n", string(text))
}

func TestServeWaitsForAServerThatDoesNotResolveAndNamesIt(t *testing.T) {
	s := start(t, "serve", "-p", "0", "-m", "cache1=nowhere.invalid", "--admin", "127.0.0.1:0")
	require.Equal(t, "cache1", awaitEntry(t, s.stderr, "waiting for a server").Server)
	admin := awaitEntry(t, s.stderr, "admin server listens").Address
	require.Equal(t, http.StatusServiceUnavailable, status(t, "http://"+admin+"/readyz"))
	require.Equal(t, http.StatusOK, status(t, "http://"+admin+"/livez"))
	s.stop()
	require.Equal(t, exitOK, s.exitCode(t))
}

func TestTheAdminServerKnowsWhenClientsAreServed(t *testing.T) {
	s := start(t, "serve", "-p", "0", "-m", mctest.StartMemcached(t).Addr(), "--admin", "127.0.0.1:0")
	awaitEntry(t, s.stderr, "ready")
	admin := awaitEntry(t, s.stderr, "admin server listens").Address
	require.Equal(t, http.StatusOK, status(t, "http://"+admin+"/readyz"))
	s.stop()
	require.Equal(t, exitOK, s.exitCode(t))
	_, err := net.Dial("tcp", admin)
	require.ErrorIs(t, err, syscall.ECONNREFUSED, "the admin server outlives the command")
}

// status returns the status of a GET of url.
func status(t *testing.T, url string) int {
	t.Helper()
	client := &http.Client{Timeout: mctest.Patience, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get(url)
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	return response.StatusCode
}

// process is mcmw as a separate process, which can be sent signals.
type process struct {
	*exec.Cmd
	stderr *output
	done   chan error // what Wait returned, once
}

func startProcess(t *testing.T, args ...string) *process {
	t.Helper()
	p := prepareProcess(args...)
	require.NoError(t, p.Start())
	p.await(t)
	return p
}

func prepareProcess(args ...string) *process {
	p := &process{Cmd: exec.Command(os.Args[0], args...), stderr: &output{}, done: make(chan error, 1)}
	p.Env = append(os.Environ(), runMain+"=1")
	p.Cmd.Stderr = p.stderr
	return p
}

// await waits for the process in the background, and kills it at the end of the test.
func (p *process) await(t *testing.T) {
	t.Helper()
	waited := make(chan struct{})
	go func() {
		p.done <- p.Wait()
		close(waited)
	}()
	t.Cleanup(func() {
		_ = p.Process.Kill()
		<-waited
	})
}

func (p *process) exit(t *testing.T) error {
	t.Helper()
	select {
	case err := <-p.done:
		return err
	case <-time.After(mctest.Patience):
		require.FailNow(t, "the process does not end", p.stderr.String())
		return nil
	}
}

// withRequestInFlight starts mcmw in front of a server that delays its answer, and sends a request. It returns when the
// server has the request; the server answers when the test sends to answer.
func withRequestInFlight(t *testing.T) (p *process, client *mctest.Client, answer chan<- struct{}) {
	t.Helper()
	asked, answering := make(chan struct{}, 1), make(chan struct{}, 1)
	server := mctest.StartScript(t, func(peer *mctest.Peer) {
		peer.Answer(func(string) string {
			asked <- struct{}{}
			select {
			case <-answering:
				return "END\r\n"
			case <-t.Context().Done():
				return ""
			}
		})
	})
	p = startProcess(t, "serve", "-p", "0", "-m", server.Addr(), "--admin", "off", "--timeout", "1h",
		"--drain-timeout", "1h")
	client = mctest.MustDial(t, awaitEntry(t, p.stderr, "ready").Listen[0])
	require.NoError(t, client.Send([]byte("get k\r\n")))
	select {
	case <-asked:
	case <-time.After(mctest.Patience):
		require.FailNow(t, "the request does not reach the server", p.stderr.String())
	}
	return p, client, answering
}

func TestASignalDrains(t *testing.T) {
	for _, signal := range []os.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(signal.String(), func(t *testing.T) {
			p, client, answer := withRequestInFlight(t)
			require.NoError(t, p.Process.Signal(signal))
			awaitEntry(t, p.stderr, "draining")
			answer <- struct{}{}
			require.Equal(t, "END\r\n", client.MustReply(t))
			rest, err := client.Rest()
			require.NoError(t, err)
			require.Empty(t, rest)
			require.NoError(t, p.exit(t))
			require.Equal(t, 1, awaitEntry(t, p.stderr, "stopped").Requests)
		})
	}
}

func TestServeGoesOnWhenNobodyReadsItsLogAnyMore(t *testing.T) {
	read, write, err := os.Pipe()
	require.NoError(t, err)
	p := prepareProcess("serve", "-p", "0", "-m", mctest.StartMemcached(t).Addr(), "--admin", "off")
	p.Cmd.Stderr = write
	require.NoError(t, p.Start())
	require.NoError(t, write.Close())
	p.await(t)
	for lines := bufio.NewScanner(read); ; {
		require.True(t, lines.Scan())
		if strings.Contains(lines.Text(), `"msg":"ready"`) {
			break
		}
	}
	require.NoError(t, read.Close())
	require.NoError(t, p.Process.Signal(syscall.SIGTERM)) // from here on each line of the log is refused
	require.NoError(t, p.exit(t), "not ended by SIGPIPE")
}

func TestASecondSignalExitsAtOnce(t *testing.T) {
	p, _, _ := withRequestInFlight(t)
	require.NoError(t, p.Process.Signal(syscall.SIGTERM))
	awaitEntry(t, p.stderr, "draining")
	require.NoError(t, p.Process.Signal(syscall.SIGTERM))
	var ended *exec.ExitError
	require.ErrorAs(t, p.exit(t), &ended)
	require.Equal(t, syscall.SIGTERM, ended.Sys().(syscall.WaitStatus).Signal())
}

func TestTheLogIsTextOnATerminalAndJSONElsewhere(t *testing.T) {
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	require.NoError(t, err)
	defer terminal.Close()
	file, err := os.Create(t.TempDir() + "/log")
	require.NoError(t, err)
	defer file.Close()
	for _, c := range []struct {
		to     io.Writer
		format string
		want   slog.Handler
	}{
		{terminal, "auto", &slog.TextHandler{}},
		{file, "auto", &slog.JSONHandler{}},
		{&output{}, "auto", &slog.JSONHandler{}},
		{terminal, "json", &slog.JSONHandler{}},
		{file, "text", &slog.TextHandler{}},
	} {
		logger, _ := newLogger(c.to, &config.Config{LogFormat: c.format})
		require.IsType(t, c.want, logger.Handler())
	}
}

func TestTheLogHasNoMessagesBelowItsLevel(t *testing.T) {
	for _, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError} {
		var log output
		logger, _ := newLogger(&log, &config.Config{LogLevel: level})
		logger.Log(t.Context(), level-1, "below")
		logger.Log(t.Context(), level, "at")
		require.NotContains(t, log.String(), "below")
		require.Contains(t, log.String(), "at")
	}
}
