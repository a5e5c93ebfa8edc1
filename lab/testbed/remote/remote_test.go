package remote

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os/exec"
	"strings"
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

	c.host.Address = "127.0.0.1"
	port, err := c.FreePort(t.Context())
	require.NoError(t, err)
	assert.Positive(t, port)
	c.host.Address = "192.0.2.1"
	_, err = c.FreePort(t.Context())
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
	c, cut, served := connected(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p, err := c.Start(ctx, sh("sleep 1000", nil))
	if err == nil { // the answer came first
		p.Stop(syscall.SIGKILL)
	} else {
		require.ErrorIs(t, err, context.Canceled)
	}
	cut()
	require.NoError(t, <-served)
}

func TestServingEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	in, _ := io.Pipe()
	cancel()
	require.NoError(t, Serve(ctx, in, io.Discard, nil, "v1"))
}

func TestAMalformedRequestEndsServing(t *testing.T) {
	require.NoError(t, Serve(context.Background(), strings.NewReader(""), io.Discard, nil, "v1"))
	err := Serve(context.Background(), strings.NewReader("hello\n"), io.Discard, nil, "v1")
	require.ErrorContains(t, err, "what the lab sends is not a request of this version of mcmwlab: ")
}

// calls is a writer that discards the calls of the lab and, at the second, sends a text to it.
type calls struct {
	text  string
	to    *io.PipeWriter
	count int
}

func (c *calls) Write(p []byte) (int, error) {
	if c.count++; c.count == 2 {
		go func() {
			_, _ = io.WriteString(c.to, c.text)
			c.to.Close()
		}()
	}
	return len(p), nil
}

func (c *calls) Close() error { return c.to.Close() }

// answered makes a connection to a host that sends text.
func answered(ctx context.Context, text string) (*Conn, error) {
	in, to := io.Pipe()
	return NewConn(ctx, "host a", in, &calls{text: text, to: to}, func(err error) error {
		in.Close()
		if err == nil {
			err = errors.New("end of text")
		}
		return err
	})
}

func TestAHostOfAnotherVersionIsRefused(t *testing.T) {
	for text, says := range map[string]string{
		"":                         "host a: end of text",
		"Welcome!\n":               "host a: its answer is not that of this version of mcmwlab",
		`{"hello":{"protocol":2}}`: "host a: its answer is not that of this version of mcmwlab",
		`{"id":1,"error":null,"result":{"Protocol":99,"Mcmwlab":"v9"}}`: "host a: its mcmwlab (v9) has another " +
			"version than this one",
		`{"id":1,"error":"rpc: can't find service Host.Version","result":null}`: "host a: rpc: can't find service",
	} {
		_, err := answered(t.Context(), text)
		require.ErrorContains(t, err, says, text)
	}
}

func TestTheErrorSaysWhyACommandReachesNoHost(t *testing.T) {
	explain := func(code int, stderr string) error { return errors.New("ended: " + stderr) }
	_, err := Connect(t.Context(),
		Command{Kind: "host", Name: "a", Cmd: exec.Command("sh", "-c", "echo refused >&2; exit 255"), Explain: explain})
	require.EqualError(t, err, "host a: ended: refused")
	read := func(in *bufio.Reader, _ io.Writer) error {
		_, err := in.ReadString('\n')
		return err
	}
	_, err = Connect(t.Context(), Command{
		Kind: "host", Name: "a", Cmd: exec.Command("sh", "-c", "echo refused >&2; exit 255"),
		Prepare: read, Explain: explain,
	})
	require.EqualError(t, err, "host a: ended: refused")
	unfit := func(*bufio.Reader, io.Writer) error { return errors.New("unfit") }
	_, err = Connect(t.Context(),
		Command{Kind: "host", Name: "a", Cmd: exec.Command("cat"), Prepare: unfit, Explain: explain})
	require.EqualError(t, err, "host a: unfit")
	_, err = Connect(t.Context(), Command{Kind: "host", Name: "a", Cmd: exec.Command("/nowhere/ssh"), Explain: explain})
	require.ErrorContains(t, err, "starting the connection to host a: ")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("interrupted"))
	for _, prepare := range []func(*bufio.Reader, io.Writer) error{nil, read} {
		_, err = Connect(ctx,
			Command{Kind: "host", Name: "a", Cmd: exec.Command("cat"), Prepare: prepare, Explain: explain})
		require.EqualError(t, err, "interrupted")
	}
}

// FuzzAnswers feeds the lab's side any text that a host can send.
func FuzzAnswers(f *testing.F) {
	const version = `{"id":1,"error":null,"result":{"Protocol":3,"Mcmwlab":"v"}}` + "\n"
	f.Add(version + `{"id":2,"error":null,"result":5}` + "\n" +
		`{"id":3,"error":null,"result":{"Output":"aGk="}}` + "\n" +
		`{"id":4,"error":null,"result":{"Ended":true,"Text":"ended"}}` + "\n")
	f.Add(version + `{"id":2,"error":"no","result":null}`)
	f.Add(`{"id":0,"error":null,"result":{}}`)
	f.Fuzz(func(t *testing.T, text string) {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		c, err := answered(ctx, text)
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

// FuzzCalls feeds the host's side any text that a lab can send.
func FuzzCalls(f *testing.F) {
	f.Add([]byte(`{"method":"Host.Start","params":[{"ID":1,"Name":"n","Path":"p","Stdout":true}],"id":1}` + "\n" +
		`{"method":"Host.Stop","params":[{"ID":1,"Signal":15}],"id":2}` + `{"method":"Host.Read","params":[1],"id":3}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if bytes.Contains(text, []byte("Free")) || bytes.Contains(text, []byte(`\`)) {
			t.Skip("it would look names up")
		}
		refuse := func(context.Context, testbed.Program) (testbed.Process, error) { return nil, errors.New("refused") }
		_ = Serve(context.Background(), bytes.NewReader(text), io.Discard, refuse, "v")
	})
}
