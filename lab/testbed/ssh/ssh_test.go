package ssh

import (
	"bufio"
	"bytes"
	"context"
	"debug/elf"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"mcmw/lab/experiment"
	"mcmw/lab/testbed"
)

func TestTheErrorSaysWhySSHHasEndedAndWhatToDo(t *testing.T) {
	h := experiment.InventoryHost{SSH: "a", User: "u", Port: 7, Identity: "/k"}
	for _, test := range []struct {
		code         int
		stderr, says string
	}{
		{
			255, "ssh: Could not resolve hostname a: Name or service not known",
			"it cannot be reached: ssh: Could not resolve hostname a: Name or service not known; try: ssh -F /c -o " +
				"BatchMode=yes -l u -p 7 -i /k a true",
		},
		{255, "ssh: connect to host a port 22: Connection timed out", "it cannot be reached"},
		{
			255, "u@a: Permission denied (publickey).",
			"it refuses the user or the key: u@a: Permission denied (publickey).; expected a key that needs no " +
				"password",
		},
		{255, "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @", "its host key is not the one in known_hosts"},
		{
			255, "Connection to a closed by remote host.",
			"the connection has ended: Connection to a closed by remote host.",
		},
		{255, "", "the connection has ended: ssh ended with code 255 and no message"},
		{
			126, "sh: 1: /tmp/x: Permission denied",
			"the programs copied there cannot be run: sh: 1: /tmp/x: Permission denied; set another directory with " +
				"the key directory",
		},
		{127, "sh: 1: mcmwlab: not found", "a program is missing there"},
		{
			1, "head: write error: No space left on device",
			"mcmwlab on it has ended with code 1: head: write error: No space left on device",
		},
		{0, "", "the connection was closed"},
	} {
		require.ErrorContains(t, explain("/c", h, test.code, test.stderr), test.says)
	}
}

func TestTheCommandReachesTheHostAndNeverPrompts(t *testing.T) {
	cmd := command("", experiment.InventoryHost{SSH: "a", Directory: "/data/it's here"})
	line := strings.Join(cmd.Args, " ")
	for _, part := range []string{
		"ssh -o BatchMode=yes -o ConnectTimeout=15 ", " -o ControlMaster=no ",
		" -- a exec sh -c '", `mcmwlab '/data/it'\''s here'`,
	} {
		assert.Contains(t, line, part)
	}
	assert.NotContains(t, line, " -F ")
}

func TestAQuotedTextIsOneWordOfAShell(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[ a-z'"$\\*;~!#\n]{0,20}`).Draw(t, "text")
		out, err := exec.Command("sh", "-c", "printf '%s|' "+quoted(text)+" end").Output()
		require.NoError(t, err)
		require.Equal(t, text+"|end|", string(out))
	})
}

func TestTheShellReceivesProgramsRunsTheAgentAndLeavesNothing(t *testing.T) {
	directory := t.TempDir()
	cmd := exec.Command("sh", "-c",
		"echo 'Welcome to this host!'; exec sh -c "+quoted(shell)+" mcmwlab "+quoted(directory))
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	reader := bufio.NewReaderSize(out, 64) // lines are longer
	s, err := greet(reader, in)
	require.NoError(t, err)
	assert.Equal(t, "Linux", s.system)
	assert.Equal(t, directory, filepath.Dir(s.directory))

	// Content that looks like lines for the shell is not treated as such.
	content := append([]byte("#!/bin/sh\necho \"$@\"\nexit\nrun 0 /nowhere\n"),
		bytes.Repeat([]byte{0, '\n', 0xff}, 100_000)...)
	path, err := s.copy(&binary{"/here/program", "program-1", machines[s.machine], content})
	require.NoError(t, err)
	copied, err := os.ReadFile(path)
	require.NoError(t, err)
	require.True(t, bytes.Equal(content, copied))
	require.NoError(t, s.run(path))
	said, err := io.ReadAll(reader)
	require.NoError(t, err)
	assert.Equal(t, "agent serve\n", string(said))
	require.NoError(t, cmd.Wait())
	left, err := os.ReadDir(directory)
	require.NoError(t, err)
	assert.Empty(t, left)
}

func TestAProgramForAnotherMachineIsNotCopied(t *testing.T) {
	b := &binary{path: "/here/mcmw", name: "mcmw-1", machine: elf.EM_X86_64}
	for _, s := range []*session{{system: "Linux", machine: "aarch64"}, {system: "Darwin", machine: "x86_64"}} {
		_, err := s.copy(b)
		require.EqualError(t, err,
			"it is "+s.system+" on "+s.machine+", but /here/mcmw is a program for Linux on x86_64; build it with "+
				"GOOS=linux and the host's GOARCH, "+
				"copy it there, and set its path with the key programs of the inventory")
	}
	self, err := os.Executable()
	require.NoError(t, err)
	b, err = readBinary("mcmw", self)
	require.NoError(t, err)
	assert.Regexp(t, `^mcmw-[0-9a-f]{12}$`, b.name)
	script := filepath.Join(t.TempDir(), "script")
	require.NoError(t, os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755))
	_, err = Open(context.Background(), &experiment.Inventory{Hosts: []experiment.InventoryHost{{Name: "a"}}},
		testbed.Programs{Mcmw: script, Mcmwlab: script})
	require.ErrorContains(t, err, "script cannot be copied to hosts: it is not a Linux program: ")
	_, err = readBinary("mcmw", script+"s")
	require.EqualError(t, err, "open "+script+"s: no such file or directory")
}

func TestWithoutAnSSHClientTheErrorSaysWhatToInstall(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := Open(context.Background(), &experiment.Inventory{}, testbed.Programs{})
	require.ErrorContains(t, err, "install it, on Debian: apt-get install openssh-client")
}

func TestClocksThatAreApartAreRefused(t *testing.T) {
	const ms = time.Millisecond
	require.NoError(t, agree([]clock{{"a", 0, ms}, {"b", 100 * ms, ms}}))
	require.NoError(t, agree([]clock{{"a", 0, 80 * ms}, {"b", 200 * ms, 80 * ms}}), "the difference is not certain")
	require.EqualError(t, agree([]clock{{"a", 0, ms}, {"b", -70 * ms, ms}, {"c", 70 * ms, ms}}),
		"the clocks of the hosts b and c are 138ms apart; expected at most 100ms: synchronize them, for instance "+
			"with chrony")
}

// FuzzGreet feeds the lab any text that a host can send before the agent's first message.
func FuzzGreet(f *testing.F) {
	f.Add("Welcome\n" + mark + "Linux x86_64 /tmp/mcmwlab.1\n" + mark + "copied\n")
	f.Add(mark + "\n")
	f.Add(mark + "Linux x86_64 //tmp/../mcmwlab.1\n" + mark + "\n")
	f.Add(strings.Repeat("\n", maxNoise))
	f.Fuzz(func(t *testing.T, text string) {
		s, err := greet(bufio.NewReaderSize(strings.NewReader(text), 16), io.Discard)
		if err != nil {
			return
		}
		path, err := s.copy(&binary{"/here", "program-1", machines[s.machine], nil})
		if err == nil {
			require.Equal(t, filepath.Clean(s.directory), filepath.Dir(path))
		}
	})
}
