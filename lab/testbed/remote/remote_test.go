package remote

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/lab/testbed"
)

// connected returns a connection to a host's side in this process, a function that cuts it, and a channel that receives
// the result of Serve.
func connected(t *testing.T) (c *Conn, cut func(), served chan error) {
	t.Helper()
	requests, requested := io.Pipe()
	events, told := io.Pipe()
	served = make(chan error, 1)
	go func() {
		served <- Serve(context.Background(), requests, told, testbed.Here().Start, "v1")
		told.Close()
	}()
	c, err := NewConn(t.Context(), "host a", events, requested,
		func(err error) error { return errors.Join(errors.New("the line is cut"), err) })
	require.NoError(t, err)
	return c, func() { requested.Close() }, served
}

func sh(script string, out io.Writer) testbed.Program {
	return testbed.Program{Name: "script", Path: "sh", Args: []string{"-c", script}, Stdout: out}
}

func TestAProgramOfAnotherHostBehavesLikeALocalOne(t *testing.T) {
	c, cut, served := connected(t)
	var out bytes.Buffer
	p, err := c.Start(t.Context(), sh("echo out; echo err >&2; head -c 300000 /dev/zero; exit 3", &out))
	require.NoError(t, err)
	assert.Positive(t, p.Pid())
	<-p.Done()
	assert.Equal(t, 3, p.ExitCode())
	require.EqualError(t, p.Ended(), "script ended on its own: exit status 3; its last output:\nerr")
	assert.Equal(t, "out\n"+strings.Repeat("\x00", 300000), out.String())
	p.Stop(syscall.SIGTERM)

	stopped := new(mctest.Output)
	p, err = c.Start(t.Context(), sh("trap 'echo bye; exit 4' TERM; echo ready; while :; do sleep 0.01; done", stopped))
	require.NoError(t, err)
	<-stopped.Written("ready")
	require.NoError(t, p.Ended())
	assert.Equal(t, -1, p.ExitCode())
	p.Stop(syscall.SIGTERM)
	assert.Equal(t, 4, p.ExitCode())
	assert.Equal(t, "ready\nbye\n", stopped.String())

	p, err = c.Start(t.Context(), testbed.Program{
		Name: "quiet", Path: "sh",
		Args: []string{"-c", "echo reason; exit 1"},
	})
	require.NoError(t, err)
	<-p.Done()
	require.EqualError(t, p.Ended(), "quiet ended on its own: exit status 1; its last output:\nreason",
		"without a writer for it, the output is kept")

	_, err = c.Start(t.Context(), testbed.Program{Name: "nothing", Path: "/nowhere/nothing"})
	require.ErrorContains(t, err, "host a: starting nothing: ")
	_, err = c.Start(t.Context(), testbed.Program{Name: "pinned", Path: "sh", CPUs: []int{1000}})
	require.ErrorContains(t, err, "host a: processors [1000]")

	port, err := c.FreePort(t.Context(), "127.0.0.1")
	require.NoError(t, err)
	assert.Positive(t, port)
	_, err = c.FreePort(t.Context(), "192.0.2.1")
	require.ErrorContains(t, err, "host a: looking for a free port")
	ahead, within, err := c.Clock(t.Context())
	require.NoError(t, err)
	assert.LessOrEqual(t, ahead.Abs(), within, "it is the same clock")

	cut()
	require.NoError(t, <-served)
}

func TestProgramsEndWithTheConnectionAndSayWhy(t *testing.T) {
	c, cut, served := connected(t)
	out := new(mctest.Output)
	p, err := c.Start(t.Context(), sh("echo $$; trap '' TERM; while :; do sleep 0.01; done", out))
	require.NoError(t, err)
	<-out.Written("\n")
	cut()
	require.NoError(t, <-served)
	require.ErrorIs(t, syscall.Kill(p.Pid(), 0), syscall.ESRCH, "it has ended on the host")
	<-p.Done()
	<-c.done
	require.Error(t, p.Ended())
	_, err = c.Start(t.Context(), sh("true", nil))
	require.EqualError(t, err, "host a: the line is cut")
	c.Close()
}

func TestACancelledStartLeavesNothing(t *testing.T) {
	c, _, _ := connected(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	out := new(mctest.Output)
	p, err := c.Start(ctx, sh("echo begun; sleep 1000", out))
	if err == nil { // the answer came first
		p.Stop(syscall.SIGKILL)
	} else {
		require.ErrorIs(t, err, context.Canceled)
	}
	// Requests are answered in order: once this one is, the program has been killed or is about to be.
	_, err = c.FreePort(t.Context(), "127.0.0.1")
	require.NoError(t, err)
	c.Close()
}

func TestServingEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	in, _ := io.Pipe()
	cancel()
	require.NoError(t, Serve(ctx, in, io.Discard, nil, "v1"))
}

func TestAMalformedRequestEndsServing(t *testing.T) {
	for text, says := range map[string]string{
		"hello\n":      `"hello" is not a message`,
		"{\"id\":1}\n": "request 1 is of an unknown kind",
		"":             "",
		`{"id":1,"start":{"name":"` + strings.Repeat("a", maxLine) + `"}}`: "token too long",
	} {
		err := Serve(context.Background(), strings.NewReader(text), io.Discard, nil, "v1")
		if says == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, says)
	}
}

// closer is a writer that notes when it is closed.
type closer struct {
	io.Writer
	closed chan struct{}
	once   sync.Once
}

func (c *closer) Close() error {
	c.once.Do(func() { close(c.closed) })
	return nil
}

// answered makes a connection to a host that sends text.
func answered(text string) (*Conn, error) {
	out := &closer{Writer: io.Discard, closed: make(chan struct{})}
	return NewConn(context.Background(), "host a", strings.NewReader(text), out, func(err error) error {
		if err == nil {
			err = errors.New("end of text")
		}
		return err
	})
}

func TestAHostOfAnotherVersionIsRefused(t *testing.T) {
	for text, says := range map[string]string{
		"":                             "host a: end of text",
		"Welcome!\n":                   `host a: "Welcome!" is not a message`,
		`{"id":1,"port":3}` + "\n":     "host a: its answer is not that of this version of mcmwlab",
		`{"hello":{"protocol":99}}`:    "host a: its mcmwlab () has another version than this one",
		`{"hello":{"protocol":"one"}}`: "is not a message",
	} {
		_, err := answered(text)
		require.ErrorContains(t, err, says, text)
	}
}

func TestTheErrorSaysWhyACommandReachesNoHost(t *testing.T) {
	explain := func(code int, stderr string) error { return errors.New("ended: " + stderr) }
	_, err := Connect(t.Context(),
		Command{Host: "host a", Cmd: exec.Command("sh", "-c", "echo refused >&2; exit 255"), Explain: explain})
	require.EqualError(t, err, "host a: ended: refused")
	read := func(in *bufio.Reader, _ io.Writer) error {
		_, err := in.ReadString('\n')
		return err
	}
	_, err = Connect(t.Context(), Command{
		Host: "host a", Cmd: exec.Command("sh", "-c", "echo refused >&2; exit 255"),
		Prepare: read, Explain: explain,
	})
	require.EqualError(t, err, "host a: ended: refused")
	unfit := func(*bufio.Reader, io.Writer) error { return errors.New("unfit") }
	_, err = Connect(t.Context(), Command{Host: "host a", Cmd: exec.Command("cat"), Prepare: unfit, Explain: explain})
	require.EqualError(t, err, "host a: unfit")
	_, err = Connect(t.Context(), Command{Host: "host a", Cmd: exec.Command("/nowhere/ssh"), Explain: explain})
	require.ErrorContains(t, err, "starting the connection to host a: ")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("interrupted"))
	for _, prepare := range []func(*bufio.Reader, io.Writer) error{nil, read} {
		_, err = Connect(ctx, Command{Host: "host a", Cmd: exec.Command("cat"), Prepare: prepare, Explain: explain})
		require.EqualError(t, err, "interrupted")
	}
}

// FuzzEvents feeds the lab's side any text that a host can send.
func FuzzEvents(f *testing.F) {
	hello := `{"hello":{"protocol":1,"version":"v"}}` + "\n"
	f.Add(hello + `{"id":1,"pid":5}` + "\n" + `{"id":1,"output":"aGk="}` + "\n" +
		`{"id":1,"ended":{"code":0,"text":"ended"}}` + "\n")
	f.Add(hello + `{"id":1,"error":"no"}` + "\n" + `{"id":1,"ended":{}}` + "\n" + `{"id":1,"ended":{}}`)
	f.Add(`{"id":1}`)
	f.Fuzz(func(t *testing.T, text string) {
		in, said := io.Pipe()
		out := &closer{Writer: io.Discard, closed: make(chan struct{})}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		go func() {
			_, _ = io.WriteString(said, text)
			said.Close()
		}()
		c, err := NewConn(ctx, "host", in, out, func(err error) error {
			in.Close()
			return errors.Join(errors.New("the end"), err)
		})
		if err != nil {
			return
		}
		if p, err := c.Start(ctx, testbed.Program{Name: "p", Stdout: io.Discard}); err == nil {
			<-p.Done()
			require.Error(t, p.Ended())
		}
		<-c.done
	})
}

// FuzzRequests feeds the host's side any text that a lab can send.
func FuzzRequests(f *testing.F) {
	f.Add([]byte(`{"id":1,"start":{"name":"n","path":"p","args":["a"],"cpus":[1],"stdout":true}}` + "\n" +
		`{"id":1,"stop":15}` + "\n" + `{"id":2,"clock":true}`))
	f.Add([]byte(`{"id":1,"stop":-1}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if bytes.Contains(bytes.ToLower(text), []byte("free")) || bytes.Contains(text, []byte(`\`)) {
			t.Skip("it would look names up")
		}
		var out bytes.Buffer
		refuse := func(context.Context, testbed.Program) (testbed.Process, error) { return nil, errors.New("refused") }
		_ = Serve(context.Background(), bytes.NewReader(text), &out, refuse, "v")
		for line := range bytes.Lines(out.Bytes()) {
			require.True(t, json.Valid(line), "%s", line)
		}
	})
}
